"""WGAN with a gradient penalty: a second derivative in every step."""

import torch
from torch import nn

torch.manual_seed(7)
critic = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))
generator = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
for_critic = torch.optim.Adam(critic.parameters(), lr=1e-2, betas=(0.5, 0.9))
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-2, betas=(0.5, 0.9))
for step in range(12):
    for _ in range(2):
        real = torch.randn(32, 2) * 0.3 + torch.tensor([1.0, -1.0])
        fake = generator(torch.randn(32, 3)).detach()
        mix = torch.rand(32, 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = (slope.norm(2, dim=1) - 1).pow(2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        for_critic.zero_grad()
        loss.backward()
        for_critic.step()
    adversarial = -critic(generator(torch.randn(32, 3))).mean()
    for_generator.zero_grad()
    adversarial.backward()
    for_generator.step()
    if step % 4 == 3:
        print(f"{loss.item():.4f} {penalty.item():.4f} {adversarial.item():.4f}")
