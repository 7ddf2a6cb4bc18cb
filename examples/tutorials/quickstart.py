import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ["outside", "inside"]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 32),
            nn.ReLU(),
            nn.Linear(32, 32),
            nn.ReLU(),
            nn.Linear(32, 2),
        )

    def forward(self, points):
        return self.layers(points)


def make_data(count):
    points = torch.rand(count, 2) * 2 - 1
    classes = (points.norm(dim=1) < 0.7).long()
    return TensorDataset(points, classes)


def train(model, loader, optimizer):
    model.train()
    total = 0
    for points, classes in loader:
        loss = nn.functional.cross_entropy(model(points), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def test(model, data):
    model.eval()
    points, classes = data.tensors
    with torch.no_grad():
        found = model(points).argmax(1)
    return (found == classes).float().mean().item()


torch.manual_seed(1)
training_data = make_data(800)
test_data = make_data(200)
loader = DataLoader(training_data, batch_size=50, shuffle=True)
model = Network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(1, 6):
    loss = train(model, loader, optimizer)
    right = test(model, test_data)
    print("epoch %d: loss %.3f, accuracy %.3f" % (epoch, loss, right))

torch.save(model.state_dict(), "quickstart.pt")
model = Network()
model.load_state_dict(torch.load("quickstart.pt"))
print("loaded: accuracy %.3f" % test(model, test_data))
with torch.no_grad():
    scores = model(torch.tensor([[0.1, -0.2]]))
print("(0.1, -0.2) is %s" % CLASSES[scores.argmax(1).item()])
