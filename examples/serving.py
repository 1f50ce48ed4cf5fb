"""Serve a trained network and its program as one exported file: export, load, answer.

`dl.trace` turns the program into a module without user code. Exported with the network, it is one
file that torch runs without Dolphin, for any number of rows. A web server adds drawn digits by it.

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
    """POST a JSON list of samples, two pictures each, to get the likeliest sums of each."""

    model: nn.Module

    def do_POST(self) -> None:
        pictures = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        p, sums = (each.tolist() for each in self.model(torch.tensor(pictures)).exp().topk(3))
        self.send_response(200)
        self.end_headers()
        answers = [dict(zip(*row, strict=True)) for row in zip(sums, p, strict=True)]
        self.wfile.write(json.dumps(answers).encode())


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
any_rows, like = ({0: torch.export.Dim("batch")},), (torch.rand(2, 2, 256),)
torch.export.save(torch.export.export(model, like, dynamic_shapes=any_rows), file := io.BytesIO())
Handler.model = torch.export.load(io.BytesIO(file.getvalue())).module()
for count in (1, 7, 64, 1000):
    torch.testing.assert_close(Handler.model(pictures[:count]), model(pictures[:count]))
with HTTPServer(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.handle_request).start()  # or serve_forever()
    body = json.dumps(pictures[:2].tolist()).encode()
    with urlopen(f"http://127.0.0.1:{server.server_port}", body) as reply:
        answer, _ = json.load(reply)
print(f"exported: {len(file.getvalue()) / 1e3:.0f} kB. {digits[0].tolist()} add up to {answer}")
if args.picture:
    from matplotlib.figure import Figure

    left, right = (figure := Figure(figsize=(6, 2.4), layout="constrained")).subplots(1, 2)
    left.imshow(torch.cat([*pictures[0].view(2, 16, 16)], 1).tolist(), cmap="gray_r")
    right.bar(list(answer), list(answer.values()))
    left.set(title="sent to the server", xticks=[], yticks=[])
    right.set(title="its answer: P(sum)", ylim=(0, 1))
    figure.savefig(args.picture)
