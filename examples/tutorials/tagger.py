import torch
from torch import nn

SENTENCES = [
    ("the dog ate the apple", "DET NN V DET NN"),
    ("everybody read that book", "NN V DET NN"),
]

words, tags = {}, {}
for sentence, marks in SENTENCES:
    for word in sentence.split():
        words.setdefault(word, len(words))
    for mark in marks.split():
        tags.setdefault(mark, len(tags))


def encode(text, numbers):
    return torch.tensor([numbers[token] for token in text.split()])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(len(words), 6)
        self.lstm = nn.LSTM(6, 6)
        self.hidden2tag = nn.Linear(6, len(tags))

    def forward(self, sentence):
        x = self.embeddings(sentence).unsqueeze(1)
        y, _ = self.lstm(x)
        return self.hidden2tag(y.flatten(0, 1))


torch.manual_seed(1)
model = Tagger()
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(1, 301):
    for sentence, marks in SENTENCES:
        optimizer.zero_grad()
        loss = loss_function(model(encode(sentence, words)), encode(marks, tags))
        loss.backward()
        optimizer.step()
    if epoch % 100 == 0:
        print("epoch %d: loss %.3f" % (epoch, loss.item()))

sentence = SENTENCES[0][0]
with torch.no_grad():
    found = model(encode(sentence, words)).argmax(1)
for word, tag in zip(sentence.split(), found.tolist()):
    print("%s is %s" % (word, list(tags)[tag]))
