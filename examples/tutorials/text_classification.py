import torch
from torch import nn

REVIEWS = [
    ("a fine film with a warm heart", 1),
    ("what a dull and tired plot", 0),
    ("warm and funny from start to end", 1),
    ("a tired cast and a dull script", 0),
    ("the cast is funny and the script is fine", 1),
    ("the plot is a dull mess", 0),
]


class Classifier(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, 8)
        self.fc = nn.Linear(8, 2)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


vocabulary = {}
for review, _ in REVIEWS:
    for word in review.split():
        vocabulary.setdefault(word, len(vocabulary))


def encode(reviews):
    offsets, text = [], []
    for review in reviews:
        offsets.append(len(text))
        text += [vocabulary[word] for word in review.split()]
    return torch.tensor(text), torch.tensor(offsets)


torch.manual_seed(1)
model = Classifier(len(vocabulary))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
text, offsets = encode(review for review, _ in REVIEWS)
labels = torch.tensor([label for _, label in REVIEWS])
for step in range(1, 51):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(text, offsets), labels)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print("step %d: loss %.3f" % (step, loss.item()))
with torch.no_grad():
    for review in ("a warm and funny script", "a dull cast"):
        print("%s: %s" % (review, ["bad", "good"][model(*encode([review])).argmax().item()]))
