import torch
from torch import nn

NAMES = {
    "italian": ["rossi", "bianchi", "ferrari", "russo", "romano", "ricci"],
    "polish": ["nowak", "kowalski", "wojcik", "kaminski", "lewandowski", "zielinski"],
    "german": ["schmidt", "schneider", "fischer", "weber", "wagner", "becker"],
}

letters = {}
for names in NAMES.values():
    for letter in "".join(names):
        letters.setdefault(letter, len(letters))


def encode(name):
    return torch.tensor([letters[letter] for letter in name])


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(letters), 16)
        self.rnn = nn.RNN(16, 32)
        self.output = nn.Linear(32, len(NAMES))

    def forward(self, name):
        _, hidden = self.rnn(self.embedding(name))
        return self.output(hidden[0])


torch.manual_seed(1)
model = Network()
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
for epoch in range(1, 31):
    total = 0
    for label, names in enumerate(NAMES.values()):
        for name in names:
            optimizer.zero_grad()
            loss = loss_function(model(encode(name)), torch.tensor(label))
            loss.backward()
            optimizer.step()
            total += loss.item()
    if epoch % 10 == 0:
        print("epoch %d: loss %.3f" % (epoch, total / 18))

for name in ("rosini", "kubinski", "schumacher"):
    with torch.no_grad():
        label = model(encode(name)).argmax().item()
    print("%s is %s" % (name, list(NAMES)[label]))
