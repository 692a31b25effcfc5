"""Prints flax's table of the recipe's model with two blocks: usage: tabulate.py >nnx_tabulate.txt  (flax 0.12.8, jax 0.10.2, CPU)

Arguments of calls that are no arrays (decode: False, out_sharding: None) are left out, and blanks at ends of lines.
"""
import os
os.environ['JAX_PLATFORMS'] = 'cpu'
import jax
import jax.numpy as jnp
import flax.nnx.summary
from flax import nnx


class PatchEmbedding(nnx.Module):
    def __init__(self, patch, width, **kw):
        self.conv_proj = nnx.Conv(3, width, kernel_size=(patch,) * 2, strides=(patch,) * 2, padding='VALID', **kw)

    def __call__(self, x):
        x = self.conv_proj(x)
        return x.reshape(x.shape[0], -1, x.shape[-1])


class EncoderBlock(nnx.Module):
    def __init__(self, width, heads, hidden, rngs, **kw):
        self.norm1 = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs, **kw)
        self.attn = nnx.MultiHeadAttention(num_heads=heads, in_features=width, rngs=rngs, **kw)
        self.norm2 = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs, **kw)
        self.linear1 = nnx.Linear(width, hidden, rngs=rngs, **kw)
        self.dropout1 = nnx.Dropout(rate=0.1, rngs=rngs)
        self.linear2 = nnx.Linear(hidden, width, rngs=rngs, **kw)
        self.dropout2 = nnx.Dropout(rate=0.1, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.norm1(x), decode=False)
        m = self.dropout1(nnx.gelu(self.linear1(self.norm2(x))))
        return x + self.dropout2(self.linear2(m))


class VisionTransformer(nnx.Module):
    def __init__(self, image, patch, classes, width, layers, heads, hidden, rngs, **kw):
        self.patch_embed = PatchEmbedding(patch, width, rngs=rngs, **kw)
        self.cls_token = nnx.Param(jnp.zeros((1, 1, width)))
        self.pos_embed = nnx.Param(jax.random.normal(rngs.params(), (1, (image // patch) ** 2 + 1, width)))
        self.encoder_blocks = nnx.List([EncoderBlock(width, heads, hidden, rngs, **kw) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs, **kw)
        self.head = nnx.Linear(width, classes, rngs=rngs, **kw)

    def __call__(self, x):
        x = self.patch_embed(x.astype(jnp.bfloat16))
        cls = jnp.tile(self.cls_token[...], (x.shape[0], 1, 1))
        x = jnp.concatenate((cls, x), axis=1) + self.pos_embed[...]
        for block in self.encoder_blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


inputs = flax.nnx.summary._get_inputs_repr
flax.nnx.summary._get_inputs_repr = lambda args, kwargs: inputs(args[:1], {})
model = VisionTransformer(32, 4, 10, 384, 2, 8, 1536, nnx.Rngs(0), dtype=jnp.bfloat16, param_dtype=jnp.float32)
text = nnx.tabulate(model, jnp.zeros((1, 32, 32, 3)), console_kwargs=dict(width=400, force_terminal=False))
print('\n'.join(line.rstrip() for line in text.rstrip().split('\n')))
