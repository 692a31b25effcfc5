"""Writes activation.txt here: activations and RMS normalization, with their slopes, by PyTorch in f64.

Lines: "NAME x[9]", which every activation takes, then "NAME values[9] slopes[9]" of each; "rms EPS x[3,4] scale[4] weight[3,4]
values[3,4] slope_x[3,4] slope_scale[4]", whose slopes are of the sum of weight times values.
"""
import torch
import torch.nn.functional as F

X = torch.tensor([-30.0, -3.0, -1.5, -0.25, 0.0, 1e-3, 0.75, 2.5, 30.0], dtype=torch.float64)
ACTIVATIONS = {
    "gelu-erf": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick-gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}


def line(name, *tensors):
    return name + " " + " ".join(f"{v:.17g}" for t in tensors for v in t.detach().flatten().tolist()) + "\n"


with open("activation.txt", "w") as f:
    f.write(f"# torch {torch.__version__.split('+')[0]}: see activation.py\n")
    f.write(line("x", X))
    for name, function in ACTIVATIONS.items():
        x = X.clone().requires_grad_()
        y = function(x)
        f.write(line(name, y, torch.autograd.grad(y.sum(), x)[0]))
    for eps in (2**-20, 0.5):
        i = torch.arange(12, dtype=torch.float64).reshape(3, 4)
        x, scale, weight = 3 * torch.sin(1.7 * i) + 1, 1 + torch.cos(i[0]) / 2, torch.cos(0.9 * i)
        x[2] = 0
        x.requires_grad_(), scale.requires_grad_()
        y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * scale
        f.write(line("rms", torch.tensor([eps], dtype=torch.float64), x, scale, weight, y, *torch.autograd.grad((weight * y).sum(), (x, scale))))
