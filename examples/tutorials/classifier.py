import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 3)
        self.fc1 = nn.Linear(16 * 2 * 2, 32)
        self.fc2 = nn.Linear(32, 16)
        self.fc3 = nn.Linear(16, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


torch.manual_seed(1)
labels = torch.arange(64) % 4
images = torch.rand(64, 1, 16, 16) * 0.5
for image, label in zip(images, labels):
    row, column = divmod(label.item(), 2)
    image[0, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 0.5

net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(1, 61):
    optimizer.zero_grad()
    outputs = net(images)
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print("epoch %d: loss %.3f" % (epoch, loss.item()))

with torch.no_grad():
    predicted = net(images).argmax(1)
accuracy = (predicted == labels).float().mean().item()
print("%g %% of 64 images are right" % (100 * accuracy))
