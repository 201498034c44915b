#!/usr/bin/env python3
"""Exports a network, without its weights' data, to files that memmodel reads.

    export_model.py torchvision:resnet50 --out models/resnet50
    export_model.py timm:convnext_tiny --out convnext_tiny
    export_model.py transformers:gpt2 --input tokens=512:int64 --out gpt2
    export_model.py mypackage.models:make_net --input 3x224x224 --out net

writes OUT.pt (TorchScript: traced, in training and for evaluation, else scripted) and, with --pt2,
OUT.pt2 (torch.export with a symbolic batch). The weights become one-element tensors
expanded to their shapes, so a file of a 7B-parameter network is a few MB; memmodel
gives them their size again. The input shapes are stored in the file.

The name is module:factory (a callable without arguments that returns an nn.Module),
torchvision:NAME, timm:NAME or transformers:NAME (a model type of AutoConfig, such as
gpt2 or bert, or a path or hub name with a config.json). Networks of transformers that
have labels are exported with their loss, as they are trained.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import json
import os
import sys
import tempfile
import warnings

import torch
from torch import nn

from watched_trace import AsInTheRun, Lives

IMAGE = [("x", [3, 224, 224], torch.float32)]
TOKENS = [("input_ids", [512], torch.int64)]
STORED_INPUTS = "memmodel_inputs.json"


class LossOfTokens(nn.Module):
    """A language model that is given its tokens as labels and returns its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, labels=input_ids).loss


class FirstTensor(nn.Module):
    """Returns the tensor that training uses from a dictionary or dataclass."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        output = self.model(x)
        if isinstance(output, dict):
            for key in ("loss", "logits", "out", "last_hidden_state"):
                if key in output:
                    return output[key]
        return output


def without_initialisation():
    """Weights keep whatever memory they get: their values do not matter here."""
    for name in dir(nn.init):
        if name.endswith("_") and not name.startswith("_"):
            setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor)


def make_torchvision(name):
    import torchvision

    extra = {"weights": None}
    if "weights_backbone" in str(torchvision.models.get_model_builder(name).__kwdefaults__):
        extra["weights_backbone"] = None
    if name == "googlenet":
        extra.update(aux_logits=False, init_weights=False)
    model = torchvision.models.get_model(name, **extra)
    video = name in ("r3d_18", "mc3_18", "r2plus1d_18", "s3d") or "mvit" in name or "swin3d" in name
    return model, [("x", [3, 16, 112, 112] if video else [3, 224, 224], torch.float32)]


def make_timm(name):
    import timm

    model = timm.create_model(name, pretrained=False)
    size = list(model.default_cfg.get("input_size", (3, 224, 224)))
    return model, [("x", size, torch.float32)]


def as_in_eager_mode():
    """While a graph is recorded, transformers avoids branches on values: it builds attention
    masks, for instance, that a training run leaves out, so that attention takes another
    kernel. This makes the recorded graph that of the run."""
    import transformers.utils.import_utils as utils

    import transformers.utils.generic as generic

    maybe_autocast = getattr(generic, "maybe_autocast", None)
    for module in list(sys.modules.values()):
        if getattr(module, "is_tracing", None) is utils.is_tracing and module is not utils:
            module.is_tracing = lambda *args, **kwargs: False
        if maybe_autocast and getattr(module, "maybe_autocast", None) is maybe_autocast:
            # Where autocast is on, which it is not here, this leaves it.
            module.maybe_autocast = lambda device_type, **named: torch.autocast(device_type, **named)

    layer = getattr(sys.modules.get("transformers.cache_utils"), "DynamicLayer", None)
    initialize = getattr(layer, "lazy_initialization", None)

    def initialize_in_the_type_of_the_run(self, key_states, value_states):
        initialize(self, key_states, value_states)  # empty tensors in the data type of the export
        self.keys = self.values = key_states[..., :0, :].detach().reshape(-1)

    if initialize:
        layer.lazy_initialization = initialize_in_the_type_of_the_run


@contextlib.contextmanager
def one_sequence_a_sample():
    """torch.export has no values. Of the checks that as_in_eager_mode lets through, the one
    of a model without an attention mask asks whether a sample holds several sequences one
    after the other: not with the positions that the model makes itself."""
    masks = sys.modules.get("transformers.masking_utils")
    name = "find_packed_sequence_indices"
    before = getattr(masks, name, None)
    if before is not None:
        setattr(masks, name, lambda position_ids: None)
    try:
        yield
    finally:
        if before is not None:
            setattr(masks, name, before)


def make_transformers(name):
    import transformers

    if os.path.exists(name) or "/" in name:
        config = transformers.AutoConfig.from_pretrained(name)
    else:
        config = transformers.AutoConfig.for_model(name)
        if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
            config.decoder_start_token_id = config.pad_token_id or 0  # labels are shifted behind it
    for auto in ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM"):
        try:
            return getattr(transformers, auto).from_config(config), TOKENS
        except ValueError:
            continue
    return transformers.AutoModel.from_config(config), TOKENS


def as_trained(model, cache):
    """A network of transformers as its training script calls it: with labels, if it takes
    tokens and labels, and with the masks of eager mode. Keys and values are cached if its
    config says so: a plain loop leaves it at that, transformers.Trainer turns it off."""
    if "transformers" not in sys.modules or not isinstance(
        model, sys.modules["transformers"].PreTrainedModel
    ):
        return model
    as_in_eager_mode()
    if not cache and hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    takes = inspect.signature(model.forward).parameters
    return LossOfTokens(model) if {"input_ids", "labels"} <= set(takes) else model


def make(name):
    source, _, rest = name.partition(":")
    makers = {"torchvision": make_torchvision, "timm": make_timm, "transformers": make_transformers}
    if source in makers and rest:
        return makers[source](rest)
    if not rest:
        sys.exit(f"{name}: expected module:factory, torchvision:NAME, timm:NAME or transformers:NAME")
    sys.path.insert(0, os.getcwd())
    made = getattr(importlib.import_module(source), rest)()
    if not isinstance(made, nn.Module):
        sys.exit(f"{name} returned {type(made).__name__}, expected an nn.Module")
    return made, IMAGE


def parse_input(spec):
    """[name=]3x224x224[:dtype], without the batch dimension."""
    name, _, rest = spec.rpartition("=")
    shape, _, dtype = rest.partition(":")
    try:
        return name, [int(n) for n in shape.split("x") if n], getattr(torch, dtype or "float32")
    except (ValueError, AttributeError):
        sys.exit(f"--input {spec}: expected [name=]3x224x224[:dtype]")


def hollow(module):
    """Replaces parameters and large floating-point buffers by expanded single elements."""
    for parameter in module.parameters():
        if parameter.numel() > 1:
            parameter.data = torch.zeros(1, dtype=parameter.dtype).expand(parameter.shape)
    for owner in module.modules():
        for name, buffer in list(owner._buffers.items()):
            if buffer is not None and buffer.is_floating_point() and buffer.numel() > 4096:
                owner._buffers[name] = torch.zeros(1, dtype=buffer.dtype).expand(buffer.shape)


def save_atomically(path, save):
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=os.path.splitext(path)[1])
    os.close(handle)
    try:
        save(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def save_script(script, inputs, path):
    hollow(script)
    stored = [
        {"name": name, "shape": shape, "dtype": str(dtype).replace("torch.", "")}
        for name, shape, dtype in inputs
    ]
    extra = {STORED_INPUTS: json.dumps(stored)}
    save_atomically(path, lambda temporary: torch.jit.save(script, temporary, _extra_files=extra))


def export_script(model, inputs, batch, path, scripted):
    """Traces or scripts `model` into `path`; returns which of the two it was."""
    how = "scripted" if scripted else "traced"
    try:
        script = torch.jit.script(model) if scripted else trace(model, batch)
        save_script(script, inputs, path)
    except Exception as error:
        if scripted or isinstance(model, LossOfTokens):
            raise
        try:
            how, script = "scripted", torch.jit.script(model)
        except Exception:  # scripting fails in many ways; the trace says more
            raise error from None
        save_script(script, inputs, path)
    return how


def trace(model, batch):
    try:
        lives = Lives(model)
        script = lives.trace(batch)
    except Exception:
        if len(batch) > 1:
            raise
        lives = Lives(FirstTensor(model).train(model.training))
        script = lives.trace(batch)
    if lives.has_numbers:
        # Fails if one of them is a size of this batch. What it prints are its marks.
        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
            script(*(torch.cat([x, x[:1]]) for x in batch))
    return script


def export_program(model, batch, path):
    hollow(model)
    symbol = torch.export.Dim("batch", min=2, max=1 << 20)
    with one_sequence_a_sample(), AsInTheRun():
        program = torch.export.export(
            model, batch, dynamic_shapes=tuple({0: symbol} for _ in batch), strict=False
        )
    save_atomically(path, lambda temporary: torch.export.save(program, temporary))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--out", required=True, help="path of the files, without their extension")
    parser.add_argument("--input", action="append", default=[], help="[name=]3x224x224[:dtype]")
    parser.add_argument("--pt2", action="store_true", help="write OUT.pt2 too")
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="transformers: cache no keys and values, as transformers.Trainer does",
    )
    parser.add_argument(
        "--script",
        action="store_true",
        help="script the network: what it decides by the size of the batch stays a decision",
    )
    parser.add_argument("--eval", action="store_true", help="export for inference")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    without_initialisation()
    model, inputs = make(options.model)
    model = as_trained(model, cache=not options.no_cache)
    model.train(not options.eval)
    if options.input:
        inputs = [parse_input(spec) for spec in options.input]
    batch = tuple(torch.zeros([2, *shape], dtype=dtype) for _, shape, dtype in inputs)
    try:
        how = export_script(model, inputs, batch, options.out + ".pt", options.script)
    except Exception as error:
        if "Could not export Python function call" not in str(error):
            raise
        found = str(error).split("'")[1]
        sys.exit(
            f"{options.model}: {found} is a torch.autograd.Function, which no TorchScript file can hold. "
            "memmodel run -- python train.py needs no file"
        )
    print(f"{options.out}.pt: {how}, {os.path.getsize(options.out + '.pt')} bytes")
    if options.pt2:
        export_program(model, batch, options.out + ".pt2")
        print(f"{options.out}.pt2: {os.path.getsize(options.out + '.pt2')} bytes")


if __name__ == "__main__":
    main()
