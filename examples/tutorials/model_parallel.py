import torch
from torch import nn

FIRST = "cuda:0" if torch.cuda.is_available() else "cpu"
SECOND = "cuda:1" if torch.cuda.device_count() > 1 else FIRST


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10).to(FIRST)
        self.net2 = nn.Linear(10, 5).to(SECOND)

    def forward(self, x):
        x = torch.relu(self.net1(x.to(FIRST)))
        return self.net2(x.to(SECOND))


torch.manual_seed(1)
model = Toy()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(20, 10)
labels = torch.randn(20, 5)
for step in range(1, 4):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), labels.to(SECOND))
    loss.backward()
    optimizer.step()
    print("step %d: loss %.3f" % (step, loss.item()))
for name, parameter in model.named_parameters():
    print("%s on %s" % (name, parameter.device))
