"""Containers: operations of lists and dicts, text, refusals."""

from collections import OrderedDict

SEQUENTIAL = """
s * 2; s + s; s[0:1]; s[-1]; s[::-1]; s + 3; s[5]; s['a']; s.insert(7, L()); s.insert(0, nn.Tanh());
s.insert(-1, nn.Sigmoid()); s.append(3); s.append(None); n; n * 2; n[:1]; n.append(nn.Tanh());
n.pop(0); n; n.__delitem__(0); n; o.extend(nn.Sequential(nn.Tanh())); o.__setitem__(1, nn.Tanh()); o;
o.extend(3); len(o); list(o.state_dict())
"""
LISTS = """
m(3); m[3]; m.extend(3); m.append(3); m + [nn.ReLU()]; m.insert(0, nn.ReLU()); m.pop(0);
m.append(None); m; m[[0]]; nn.ModuleList(); nn.ModuleList([L(), L(), nn.ReLU(), s, s]);
nn.ModuleList([L(), nn.ReLU()])[:1]; list(nn.ModuleList([L(), L()]).state_dict())
"""
DICTS = """
d.update(3); d.update([3]); d.update([(1, 2, 3)]); d.update([('a', 3)]); d.__setitem__('a.b', L());
d.__setitem__('', L()); d.__setitem__('keys', L()); d({}); d.update({'z': L(), 'a': L()});
list(d.keys()); len(d); d.pop('q'); d.pop('z'); d['q']; nn.ModuleDict(); d; 'a' in d
"""
PARAMETERS = """
p(1); p.extend(torch.ones(2)); p.extend(3); p[4]; p.append(torch.ones(1)); p[:1]; p.insert(0, 1);
list(p.state_dict()); nn.ParameterList(); nn.ParameterList([torch.ones(2), 3, 'a', torch.ones(2, 3)]);
q(1); q[1]; q['zz']; q.update(3); q.update([3]); q.update([(1, 2, 3)]);
q | nn.ParameterDict({'c': torch.zeros(2)}); q.popitem(); q.popitem(); q.setdefault('x');
q.fromkeys(['a', 'b'], torch.ones(1)); q.get('nope', 3); list(q.keys()); list(q.items()); 'x' in q;
list(reversed(nn.ParameterDict({'a': 1, 'b': 2}))); q.pop('zz'); q.clear(); len(q); q | 3;
nn.ParameterDict({'b': torch.ones(2), 'a': 3}); nn.ParameterDict()
"""


def run(torch, log):
    nn = torch.nn
    names = {"nn": nn, "torch": torch, "L": lambda: nn.Linear(2, 3)}
    names["s"] = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    for name in "no":
        named = [("a", nn.Linear(2, 3)), ("b", nn.ReLU())]
        names[name] = nn.Sequential(OrderedDict(named))
    names["m"], names["d"] = nn.ModuleList([nn.Linear(2, 3)]), nn.ModuleDict()
    names["p"] = nn.ParameterList([1])
    names["q"] = nn.ParameterDict({"a": torch.ones(2)})
    for texts in (SEQUENTIAL, LISTS, DICTS, PARAMETERS):
        for text in texts.replace("\n", " ").split(";"):
            try:
                found = eval(text.strip(), names)
            except Exception as error:
                log(text.strip(), type(error).__name__, str(error))
            else:
                log(text.strip(), repr(found))
