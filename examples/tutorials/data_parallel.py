import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

INPUT, OUTPUT, ROWS, BATCH = 5, 2, 100, 30


class RandomDataset(Dataset):
    def __init__(self):
        self.rows = torch.randn(ROWS, INPUT)

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self):
        return len(self.rows)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(INPUT, OUTPUT)

    def forward(self, x):
        y = self.fc(x)
        print("model/x: %s" % list(x.shape))
        print("model/y: %s" % list(y.shape))
        return y


device = "cuda:0" if torch.cuda.is_available() else "cpu"
model = Model()
if torch.cuda.device_count() > 1:
    print("%d GPUs" % torch.cuda.device_count())
    model = nn.DataParallel(model)
model.to(device)
for rows in DataLoader(RandomDataset(), batch_size=BATCH):
    with torch.no_grad():
        scores = model(rows.to(device))
    print("rows: %s" % list(rows.shape))
    print("scores: %s" % list(scores.shape))
