"""Serve a trained network and its program as one exported file: export, load, answer.

`dl.trace` turns the program into a module without user code. Exported with the network, it is one
file that torch runs without Dolphin. A web server loads it and adds two drawn digits.

    python examples/serving.py --picture serving.png
"""

import argparse
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import urlopen

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.strokes import draw_symbols


class Adder(nn.Module):
    """Two pictures (B, 2, 256) to log-probabilities of their sums (B, 19)."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))
        self.add = dl.trace(lambda x, y: x + y, range(10), range(10), logits=True)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.add(*self.read(pictures).unbind(1))


class Handler(BaseHTTPRequestHandler):
    """POST a JSON list of two pictures to get the likeliest sums."""

    model: nn.Module

    def do_POST(self) -> None:
        pictures = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        p, sums = self.model(torch.tensor([pictures]))[0].exp().topk(3)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(dict(zip(sums.tolist(), p.tolist(), strict=True))).encode())


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--picture")
args = parser.parse_args()
digits, model = torch.randint(0, 10, (1000, 2)), Adder()
pictures = draw_symbols(digits.flatten(), 16, seed=0).view(1000, 2, 256) / 255
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(args.steps):
    optimizer.zero_grad()
    rows = torch.randint(1, 1000, (32,))
    nn.functional.nll_loss(model(pictures[rows]), digits[rows].sum(1)).backward()
    optimizer.step()
torch.export.save(torch.export.export(model, (pictures[:1],)), file := io.BytesIO())
Handler.model = torch.export.load(io.BytesIO(file.getvalue())).module()
with HTTPServer(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.handle_request).start()  # or serve_forever()
    body, url = json.dumps(pictures[0].tolist()), f"http://127.0.0.1:{server.server_port}"
    with urlopen(url, body.encode()) as reply:
        answer = json.load(reply)
print(f"exported: {len(file.getvalue()) / 1e3:.0f} kB. {digits[0].tolist()} add up to {answer}")
if args.picture:
    from matplotlib.figure import Figure

    left, right = (figure := Figure(figsize=(6, 2.4), layout="constrained")).subplots(1, 2)
    left.imshow(torch.cat([*pictures[0].view(2, 16, 16)], 1).tolist(), cmap="gray_r")
    right.bar(list(answer), list(answer.values()))
    left.set(title="sent to the server", xticks=[], yticks=[])
    right.set(title="its answer: P(sum)", ylim=(0, 1))
    figure.savefig(args.picture)
