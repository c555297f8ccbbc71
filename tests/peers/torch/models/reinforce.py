"""REINFORCE with a baseline on a corridor."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(14)
policy = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))
value = nn.Linear(5, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=0.03)
steps = []
for episode in range(40):
    place, logs, values, rewards = 2, [], [], []
    while place not in (0, 4) and len(rewards) < 20:
        state = nn.functional.one_hot(torch.tensor(place), 5).float()
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        logs.append(choice.log_prob(action))
        values.append(value(state).squeeze())
        place += 1 if action.item() else -1
        rewards.append(1.0 if place == 4 else -0.1)
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.95 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    baseline = torch.stack(values)
    loss = (
        -(torch.stack(logs) * (returns - baseline.detach())).sum()
        + (returns - baseline).pow(2).sum()
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    steps.append(place)
    if episode % 13 == 12:
        print(f"{episode} {loss.item():.4f} {sum(p == 4 for p in steps)}")
