"""Weights between millrace and timm, Hugging Face, torchvision and flax, both ways, judged by the forward passes of these
libraries in torch and by the recorded results of flax's.  usage: check-weights.py MILLRACE GOLDEN FOLDER
GOLDEN is tests/golden/vit; FOLDER is empty.  The Python that `millrace export` prints is what makes the models here."""

import os
import subprocess
import sys

import numpy
import PIL.Image
import safetensors.torch
import timm.layers
import timm.models.vision_transformer as timm_vit
import torch
import torchvision
import transformers

program, golden, folder = sys.argv[1:4]
torch.manual_seed(5)
torch.set_num_threads(1)
CLOSE = 1e-5
SIZES = 'patch=4 embed=32 mlp=64 heads=4 layers=2'
failed = []


def at(*names):
    return os.path.join(folder, *names)


def says(name, good, what=''):
    print('ok' if good else 'FAILED', name, what)
    if not good:
        failed.append(name)


def millrace(*words, fails=False):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if (done.returncode != 0) != fails:
        raise SystemExit(f'millrace {" ".join(words)}: {done.returncode}\n{done.stdout}{done.stderr}')
    return done


def write_pictures():
    """Folders of ten classes; returns their pictures as the graph normalises them, (N,3,32,32), in the order of their names."""
    random = numpy.random.default_rng(1)
    rows = random.integers(0, 256, (20, 32, 32, 3), dtype=numpy.uint8)
    for i, row in enumerate(rows):
        os.makedirs(at('pictures', f'class{i // 2}'), exist_ok=True)
        PIL.Image.fromarray(row).save(at('pictures', f'class{i // 2}', f'{i % 2}.png'))
    pictures = rows.transpose(0, 3, 1, 2).astype(numpy.float32) / numpy.float32(255)
    mean, std = (numpy.array(a).reshape(1, 3, 1, 1) for a in [(.4914, .4822, .4465), (.2023, .1994, .2010)])
    return torch.from_numpy(((pictures - mean) / std).astype(numpy.float32))


def train(run, file, settings, side=32):
    """A run whose parameters are those of the file, or without one drawn: its one step has rate 0."""
    records = f'folder path={at("pictures")} split=all ! sequential epochs=1 ! decode ! resize {side}x{side} ! normalize preset=cifar10'
    with open(at('graph.mr'), 'w', encoding='utf-8') as out:
        out.write('let run = unset\n'
                  f'{records} ! batch 8 drop-remainder ! train-step name=train {SIZES} steps=1 lr=0 dtype=f32 threads=1 leak-check=off {settings}\n'
                  f'{records} ! batch 4 ! train.test\n'
                  'train.state ! checkpoint dir=$run/checkpoints\n')
    return millrace('train', '--graph', at('graph.mr'), '--run-dir', at(run), *([f'from={file}'] if file else [])).stderr


def export(run, form):
    """Exports, runs the Python that is printed, and returns what it made."""
    made = {}
    file = at(f'{run}.{form}.safetensors')
    exec(millrace('export', at(run), '--format', form, '--out', file).stdout, made)  # pylint: disable=exec-used
    return made['model'].eval() if 'model' in made else made['parameters']


def logits(model, pictures):
    with torch.no_grad():
        out = model(pictures)
    return (out.logits if hasattr(out, 'logits') else out).numpy()


def compare(name, have, want, close=CLOSE):
    worst = float(numpy.abs(numpy.asarray(have, float) - numpy.asarray(want, float)).max())
    says(name, have.shape == want.shape and worst <= close, f'(worst difference {worst:.1e})')


def centered(x):
    return x - x.mean(axis=1, keepdims=True)


def compare_own(run, model, pictures):
    """What millrace predicts by its own forward pass, as logits but for a constant."""
    millrace('predict', at(run), at('pictures'), '--top', '10', '--threads', '1', '--out', at('scores.npz'))
    scores = numpy.load(at('scores.npz'))['scores']
    compare(f'{run}: own prediction', centered(numpy.log(scores.astype(float))), centered(logits(model, pictures)))


def golden_parameters(style):
    """The recorded parameters under their names, as a file."""
    vector = numpy.load(os.path.join(golden, style, 'params.npy'))
    tensors = {}
    with open(os.path.join(golden, style, 'params.index.txt'), encoding='utf-8') as lines:
        for words in (line.split() for line in lines if not line.startswith('#')):
            dims = [int(d) for d in words[3:]]
            first, size = int(words[1]), int(numpy.prod(dims))
            tensors[words[0]] = torch.from_numpy(vector[first:first + size].reshape(dims).copy())
    safetensors.torch.save_file(tensors, at(f'golden.{style}.safetensors'))
    return tensors


def check_golden(style, other, function, pictures):
    """Recorded parameters through both styles to every library that computes the same."""
    tensors = golden_parameters(style)
    images = numpy.load(os.path.join(golden, style, 'images.npy'))
    images = torch.from_numpy(images.transpose(0, 3, 1, 2).copy() if style == 'flax' else images)
    want = numpy.load(os.path.join(golden, style, 'f32.logits.npy'))
    for run, settings in [(f'{style}-same', f'style={style}'), (f'{style}-as-{other}', f'style={other} {function}')]:
        train(run, at(f'golden.{style}.safetensors'), settings)
        for form in ['timm', 'hf'] + (['torchvision'] if style == 'timm' else []):
            model = export(run, form)
            compare(f'{run}: {form}', logits(model, images), want)
        compare_own(run, model, pictures)
        if style == 'flax':
            back = export(run, 'flax')
            exact = back.keys() == tensors.keys() and all(numpy.array_equal(back[n], tensors[n].numpy()) for n in tensors)
            says(f'{run}: flax, bit by bit', exact)
        wrong = 'torchvision' if style == 'flax' else 'flax'
        said = millrace('export', at(run), '--format', wrong, '--out', at('no.safetensors'), fails=True).stderr
        says(f'{run}: {wrong} is refused', 'does not compute; train with gelu=' in said and not os.path.exists(at('no.safetensors')))
    said = subprocess.run([program, 'train', '--graph', at('graph.mr'), '--run-dir', at('none'), f'style={other}', 'gelu=auto',
                           'ln-eps=0', f'from={at(f"golden.{style}.safetensors")}'], capture_output=True, text=True, check=False)
    says(f'{style} as another function is refused', said.returncode != 0 and '; want gelu=' in said.stderr, said.stderr.strip())


def check_library(name, model, settings, pictures, prefix=''):
    """A model that the real library made: its file, through a run, back to the library."""
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    model.eval()
    file = at(f'{name}.real.safetensors')
    safetensors.torch.save_file({n: t.contiguous() for n, t in model.state_dict().items() if n.startswith(prefix)}, file)
    for style in ['timm', 'flax']:
        run = f'{name}-{style}'
        train(run, file, f'style={style} {settings}')
        for form in ['timm', 'hf', 'torchvision']:
            back = export(run, form)
            compare(f'{run}: {form}', logits(back, pictures), logits(model, pictures))
        compare_own(run, model, pictures)
    return file


def check_functions(pictures):
    """Other activations, which timm and Hugging Face compute too, and RMS normalizations, which older timm takes for others."""
    for style in ['timm', 'flax']:
        for function in ['quick-gelu', 'relu', 'silu', 'tanh']:
            run = f'{function}-{style}'
            train(run, None, f'style={style} activation={function} init=normal:0.2')
            for form in ['timm', 'hf']:
                compare_own(run, export(run, form), pictures)
            said = millrace('export', at(run), '--format', 'torchvision', '--out', at('no.safetensors'), fails=True).stderr
            says(f'{run}: torchvision is refused', f'its MLPs compute {function}, which' in said, said.strip())
        run = f'rms-{style}'
        train(run, None, f'style={style} norm=rms init=normal:0.2')
        for form in ['timm', 'flax', 'hf', 'torchvision']:
            said = millrace('export', at(run), '--format', form, '--out', at('no.safetensors'), fails=True).stderr
            says(f'{run}: {form} is refused', 'its normalizations are RMS' in said, said.strip())
    file = at('relu-timm', 'checkpoints', 'latest')
    said = millrace('train', '--graph', at('graph.mr'), '--run-dir', at('none'), f'from={file}', fails=True).stderr
    says('another activation is refused', '; want activation=relu' in said, said.strip())


def check_positions(file):
    """Pictures of another size."""
    want = safetensors.torch.load_file(file)['pos_embed']
    for side in [16, 24, 48, 56]:
        run = f'side-{side}'
        said = train(run, file, 'style=timm ln-eps=1e-6', side)
        says(f'{run}: said', f'its positions are interpolated from 8x8 to {side // 4}x{side // 4} patches' in said)
        have = export(run, 'timm').pos_embed.detach()
        oracle = timm.layers.resample_abs_pos_embed(want, [side // 4, side // 4], num_prefix_tokens=1)
        compare(f'{run}: positions', have.numpy(), oracle.numpy(), 1e-6)


def main():
    pictures = write_pictures()
    check_golden('flax', 'timm', 'gelu=tanh ln-eps=1e-6', pictures)
    check_golden('timm', 'flax', 'gelu=erf ln-eps=1e-5', pictures)
    file = check_library('timm', timm_vit.VisionTransformer(img_size=32, patch_size=4, embed_dim=32, depth=2, num_heads=4, mlp_ratio=2,
                                                            num_classes=10),
                         'gelu=erf ln-eps=1e-6', pictures)
    check_library('torchvision', torchvision.models.VisionTransformer(image_size=32, patch_size=4, num_layers=2, num_heads=4,
                                                                      hidden_dim=32, mlp_dim=64, num_classes=10),
                  'gelu=erf ln-eps=1e-6', pictures)
    config = transformers.ViTConfig(image_size=32, patch_size=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                    intermediate_size=64, num_labels=10)
    check_library('hf', transformers.ViTForImageClassification(config), 'gelu=erf ln-eps=1e-12', pictures)
    check_functions(pictures)
    check_positions(file)
    print(f'{len(failed)} failed')
    return 1 if failed else 0


sys.exit(main())
