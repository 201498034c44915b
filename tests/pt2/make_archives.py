"""Makes the small torch.export archives of the tests. Needs torch 2.11; writes into the folder archives/ beside it.

Three layouts of one network (what torch.export.save of torch 2.6, 2.8 and 2.11 writes), a fixed batch, regions and
batch norm, tied weights with a dictionary as output, and archives that are to be refused.
"""
import json
import pathlib
import re
import zipfile

import torch
from torch import nn
from torch._export.serde.serialize import serialize

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "archives"


class Perceptron(nn.Module):
    """Weights of 1024, 128, 512 and 16 bytes; nothing else."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 32)
        self.b = nn.Linear(32, 4)

    def forward(self, x):
        hidden = self.a(x)
        active = torch.relu(hidden)
        return self.b(active)


class Names(nn.Module):
    """What lives until when: `doubled` is not used after the third line, yet Python keeps it to the return."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        with torch.no_grad():
            doubled = x * 2
            shifted = doubled + 1
            grown = torch.cat([shifted, shifted])
        return grown.sum() * self.scale


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        with torch.autocast(device_type=x.device.type, enabled=False):
            x = x.mean((2, 3))
        n = x.shape[0]
        return self.head(self.drop(x).reshape(n * 2, 4).reshape(n, 8))


class Language(nn.Module):
    """Tied weights, a dictionary as output, an argument that is None."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.out = nn.Linear(16, 100, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("positions", torch.arange(12), persistent=False)

    def forward(self, tokens, mask=None):
        hidden = self.embed(tokens) + self.positions[None, :, None]
        logits = self.out(hidden)
        loss = nn.functional.cross_entropy(logits.view(-1, 100), tokens.view(-1))
        return {"loss": loss, "logits": logits}


class Branches(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,)) * 1


def export(module, inputs, symbolic=True, **kwargs):
    batch = torch.export.Dim("batch", min=2, max=65536)
    shapes = tuple({0: batch} if isinstance(x, torch.Tensor) else None for x in inputs) if symbolic else None
    return torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False, **kwargs)


def neutral(text):
    """Source paths of this machine say nothing to a reader."""
    text = re.sub(r'File \\"[^"]*?/site-packages/', r'File \\"', text)
    return text.replace(str(HERE) + "/", "")


def records(path):
    with zipfile.ZipFile(path) as z:
        return {n: z.read(n) for n in z.namelist()}


def write(name, files, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(OUT / name, "w", compression) as z:
        for n, data in files.items():
            info = zipfile.ZipInfo(n, (1980, 1, 1, 0, 0, 0))
            info.compress_type = compression
            z.writestr(info, data)


def save(program, name):
    """As torch.export.save does; returns the records."""
    temporary = OUT / "temporary.pt2"
    torch.export.save(program, str(temporary))
    files = {}
    for n, data in records(temporary).items():
        n = n.replace("temporary/", "archive/", 1)
        if n.endswith("/models/model.json"):
            data = neutral(data.decode()).encode()
        if "sample_inputs" not in n and not n.startswith("archive/.data/serialization_id"):
            files[n] = data
    temporary.unlink()
    write(name, files)
    return files


def edited(files, change):
    model = json.loads(files["archive/models/model.json"])
    change(model)
    return {**files, "archive/models/model.json": json.dumps(model).encode()}


def older(model, minor, torch_version):
    """What schema 8.`minor` did not have yet."""
    model["schema_version"]["minor"] = minor
    model.pop("guards_code", None)
    if torch_version:
        model["torch_version"] = torch_version
    else:
        model.pop("torch_version", None)
    module = model["graph_module"]
    module.pop("treespec_namedtuple_fields", None)
    module["graph"].pop("sym_float_values", None)
    for node in module["graph"]["nodes"]:
        node.pop("is_hop_single_tensor_return", None)
        node.pop("name", None)
    for node_input in (i for n in module["graph"]["nodes"] for i in n["inputs"]):
        node_input.pop("kind", None)


def main():
    OUT.mkdir(exist_ok=True)
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    program = export(Perceptron(), (x,))
    perceptron = save(program, "perceptron.pt2")
    write("perceptron_deflated.pt2", perceptron, zipfile.ZIP_DEFLATED)

    # torch/export/__init__.py of torch 2.6: flat records, torch.save files inside.
    artifact = serialize(program)
    model = json.loads(neutral(artifact.exported_program.decode()))
    older(model, 2, None)
    flat = {
        "serialized_exported_program.json": json.dumps(model).encode(),
        "serialized_state_dict.pt": artifact.state_dict,
        "serialized_constants.pt": artifact.constants,
        "version": b"8.2",
    }
    write("perceptron_torch26.pt2", flat)
    # torch/export/pt2_archive/_package.py of torch 2.8: folders, torch.save files inside.
    model = json.loads(perceptron["archive/models/model.json"])
    older(model, 8, "2.8.0")
    files = {n: d for n, d in perceptron.items() if "/data/" not in n}
    files["archive/models/model.json"] = json.dumps(model).encode()
    files["archive/data/weights/model.pt"] = artifact.state_dict
    files["archive/data/constants/model.pt"] = artifact.constants
    write("perceptron_torch28.pt2", files)

    save(export(Perceptron(), (x,), symbolic=False), "fixed_batch.pt2")
    save(export(Names(), (torch.randn(4, 1024),)), "names.pt2")
    save(export(Convolutional(), (torch.randn(4, 3, 8, 8),)), "convolutional.pt2")
    tokens = torch.randint(0, 100, (4, 12))
    save(export(Language(), (tokens, None)), "language.pt2")
    try:
        save(export(Branches(), (torch.randn(4, 8),)), "branches.pt2")
    except Exception as error:  # what torch can export changes from version to version
        print("branches:", error)

    # To be refused.
    (OUT / "truncated.pt2").write_bytes((OUT / "perceptron.pt2").read_bytes()[:-200])

    def unknown_operator(m):
        m["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.mylibrary.fold.default"

    def newer(m):
        m["schema_version"] = {"major": 9, "minor": 1}

    def unnamed_value(m):
        m["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_tensor": {"name": "nowhere"}}

    def negative_size(m):
        m["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][1] = {"as_int": -8}

    write("unknown_operator.pt2", edited(perceptron, unknown_operator))
    write("newer_schema.pt2", edited(perceptron, newer))
    write("unnamed_value.pt2", edited(perceptron, unnamed_value))
    write("negative_size.pt2", edited(perceptron, negative_size))
    write("not_json.pt2", {**perceptron, "archive/models/model.json": b"{" * 100000}, zipfile.ZIP_DEFLATED)
    write("no_program.pt2", {"archive/archive_format": b"pt2"})


if __name__ == "__main__":
    main()
