"""Writes class_loss.txt here: losses of classifiers and their gradients by PyTorch, in f64.

Six records of five classes; record 4 counts for nothing, and record 5 is nearly certain.  Lines: "KIND GAMMA SMOOTHING LABELS",
then six losses, then the gradient of their sum by the logits, row by row.  LABELS: classes, or shares of each class.
"""
import torch
import torch.nn.functional as F

B, C, NONE = 6, 5, 4
i = torch.arange(B * C, dtype=torch.float64)
LOGITS = (3 * torch.sin(1.7 * i) + torch.cos(0.3 * i)).reshape(B, C)
LOGITS[5] = torch.tensor([60.0, -20.0, 0.0, 1.0, 2.0], dtype=torch.float64)
LABELS = torch.tensor([0, 3, 1, 4, 0, 0])
SHARES = (1 + torch.arange(B * C, dtype=torch.float64) % 7).reshape(B, C)
SHARES = SHARES / SHARES.sum(1, keepdim=True)


def losses(kind, gamma, smoothing, labels, z):
    if kind == "cross-entropy" and labels == "classes":
        return F.cross_entropy(z, LABELS, reduction="none", label_smoothing=smoothing)
    t = SHARES if labels == "shares" else F.one_hot(LABELS, C).double()
    if kind == "cross-entropy":
        return F.cross_entropy(z, t, reduction="none", label_smoothing=smoothing)
    t = (1 - smoothing) * t + smoothing / C
    if kind == "mse":
        return F.mse_loss(z, t, reduction="none").mean(1)
    log_p = F.log_softmax(z, 1)
    return -(t * (-torch.expm1(log_p)) ** gamma * log_p).sum(1)


with open("class_loss.txt", "w") as f:
    f.write(f"# torch {torch.__version__.split('+')[0]}: KIND GAMMA SMOOTHING LABELS, losses[6], gradient[6,5]\n")
    for kind in ("cross-entropy", "focal", "mse"):
        for gamma in (1.0, 2.0, 2.5) if kind == "focal" else (2.0,):
            for smoothing in (0.0, 0.125):
                for labels in ("classes", "shares"):
                    z = LOGITS.clone().requires_grad_()
                    y = losses(kind, gamma, smoothing, labels, z)
                    y = torch.where(torch.arange(B) == NONE, torch.zeros((), dtype=torch.float64), y)
                    (dz,) = torch.autograd.grad(y.sum(), z)
                    values = " ".join(f"{v:.17g}" for v in torch.cat([y.detach(), dz.flatten()]).tolist())
                    f.write(f"{kind} {gamma:g} {smoothing:g} {labels} {values}\n")
