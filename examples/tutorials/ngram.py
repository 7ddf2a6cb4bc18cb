import torch
import torch.nn as nn
import torch.nn.functional as F

CONTEXT, EMBEDDING = 2, 10
TEXT = """the tide comes in and the tide goes out and the boats
rise and fall with it while the gulls above the boats call out
to the gulls on the shore and the shore keeps still""".split()

vocabulary = sorted(set(TEXT))
numbers = {word: number for number, word in enumerate(vocabulary)}
text = torch.tensor([numbers[word] for word in TEXT])
contexts = torch.stack([text[i : i + CONTEXT] for i in range(len(text) - CONTEXT)])
targets = text[CONTEXT:]


class NGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(len(vocabulary), EMBEDDING)
        self.linear1 = nn.Linear(CONTEXT * EMBEDDING, 64)
        self.linear2 = nn.Linear(64, len(vocabulary))

    def forward(self, words):
        embedded = self.embeddings(words).flatten(1)
        hidden = F.relu(self.linear1(embedded))
        return F.log_softmax(self.linear2(hidden), dim=1)


torch.manual_seed(1)
model = NGram()
loss_function = nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(1, 101):
    model.zero_grad()
    loss = loss_function(model(contexts), targets)
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print("step %d: loss %.3f" % (step, loss.item()))

with torch.no_grad():
    asked = torch.tensor([[numbers["boats"], numbers["rise"]]])
    found = model(asked).argmax(1).item()
print("boats rise ... %s" % vocabulary[found])
