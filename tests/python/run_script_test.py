"""`memmodel run` end to end: what a script sees, what is answered, what leaks (nothing).

MEMMODEL is the program, the interpreter is the one with a CUDA build of torch. Values come from PyTorch itself (its
statistics as the script prints them) and from arithmetic.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

MEMMODEL = os.environ.get("MEMMODEL", "memmodel")

TRAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range({steps}):
    x = torch.randn({batch}, 1024).cuda()
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
print("PEAK", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
"""


def ctypes_library():
    import _ctypes

    return _ctypes.__file__


def has(module):
    import importlib.util

    return importlib.util.find_spec(module) is not None


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def script(self, text, name="train.py"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def run_memmodel(self, *arguments, command, environment=None):
        return subprocess.run([MEMMODEL, "run", *arguments, "--", *command], cwd=self.folder.name, text=True,
                              capture_output=True, env=dict(os.environ, **(environment or {})))

    def answer(self, *arguments, command, code=0):
        done = self.run_memmodel("--json", *arguments, command=command)
        self.assertEqual(done.returncode, code, done.stderr[-3000:])
        return json.loads(done.stdout), done.stderr

    def python(self, text, *words):
        return [sys.executable, self.script(text), *words]

    def test_peaks_are_those_that_pytorch_tells_the_script(self):
        answer, output = self.answer("--gpu", "h200", "--steps", "0", command=self.python(TRAIN.format(steps=3, batch=64)))
        allocated, reserved = re.search(r"PEAK (\d+) (\d+)", output).groups()
        self.assertEqual(answer["peak"]["allocated_bytes"], int(allocated))
        self.assertEqual(answer["peak"]["reserved_bytes"], int(reserved))
        self.assertEqual(answer["verdict"], "fits")
        kinds = answer["breakdown"]
        parameters = 4 * (1024 * 4096 + 4096 + 4096 * 1024 + 1024)
        self.assertEqual(kinds["weights"], parameters)
        # Adam's exp_avg and exp_avg_sq; its step counters are on the CPU.
        self.assertEqual(kinds["optimizer_state"], 2 * parameters)
        self.assertEqual(sum(v for k, v in kinds.items() if k not in ("fragmentation", "context")), int(allocated))

    def test_ends_after_the_steps_even_if_the_script_catches_everything(self):
        text = TRAIN.format(steps=1000, batch=8).replace("    optimizer.step()\n", """
    try:
        optimizer.step()
    except BaseException:
        pass
""")
        answer, output = self.answer("--gpu", "h200", "--steps", "2", command=self.python(text))
        self.assertEqual(answer["steps_done"], 2)
        self.assertNotIn("PEAK", output)

    def test_out_of_memory_is_pytorchs_own_exception(self):
        text = """
import torch
try:
    torch.empty(4 * 2**30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print("CAUGHT", error)
    raise
"""
        answer, output = self.answer("--gpu", "h200", "--gpu-mem", "2G", command=self.python(text), code=1)
        self.assertRegex(output, r"CAUGHT CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 2.00 GiB")
        self.assertEqual(answer["verdict"], "does_not_fit")
        self.assertEqual(answer["peak"]["allocated_bytes"], 4 * 2**30)  # measured on a card without end

    def test_other_programs_get_no_stand_ins(self):
        text = TRAIN.format(steps=1, batch=8) + """
import os, subprocess, sys
print("SHELL", subprocess.run(["sh", "-c", "cat /proc/self/maps; env"], capture_output=True, text=True).stdout.count("libmemmodel"))
print("PYTHON", subprocess.run([sys.executable, "-c", "print(open('/proc/self/maps').read())"], capture_output=True,
                               text=True).stdout.count("vgpu"))
print("VARIABLES", [n for n in ("LD_PRELOAD", "LD_LIBRARY_PATH") if n in os.environ])
"""
        _, output = self.answer("--gpu", "h200", "--steps", "0", command=self.python(text))
        self.assertIn("SHELL 0\n", output)
        self.assertIn("PYTHON 0\n", output)
        self.assertIn("VARIABLES []\n", output)

    def test_a_library_opened_by_its_path_is_the_stand_in(self):
        # As torch/__init__.py's _preload_cuda_deps opens libnvshmem_host.so.3 of a whole installation, whose
        # start-up code ends the process on the stand-ins.
        import shutil
        name = "libnvshmem_host.so.3"
        real = os.path.join(self.folder.name, name)
        shutil.copy(ctypes_library(), real)  # any library that the stand-ins are not
        done = self.run_memmodel("--steps", "0", "--gpu", "h200", command=self.python(
            "import ctypes, torch; torch.zeros(1).cuda(); ctypes.CDLL(%r)\n"
            "found = [line.split()[-1] for line in open('/proc/self/maps') if %r in line]\n"
            "print('OPEN', any('vgpu' in path for path in found), %r in found)" % (real, name, real)))
        self.assertIn("OPEN True False", done.stderr)

    def test_on_a_real_gpu_there_are_no_stand_ins(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("this machine has a GPU")
        done = self.run_memmodel("--device", "cuda", "--gpu", "h200", command=self.python(
            "try:\n    import torch\nexcept ImportError:\n    pass  # NVIDIA's libraries are not installed\n"
            "print('SEEN', 'vgpu' in open('/proc/self/maps').read())"))
        self.assertIn("SEEN False", done.stderr)
        self.assertNotEqual(done.returncode, 0)  # the script used no GPU
        done = self.run_memmodel("--device", "cuda", "--find-batch", "--gpu", "h200", command=["python", "{batch}"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--device cuda", done.stderr)

    def test_values_that_decide_memory_make_it_unknown(self):
        text = TRAIN.format(steps=3, batch=8).replace("model(x)", "model(x)[x.sum(1) > 0]")
        answer, _ = self.answer("--gpu", "h200", command=self.python(text), code=3)
        self.assertEqual(answer["verdict"], "unknown")
        self.assertIn("train.py:7: model(x)[x.sum(1) > 0]", answer["reason"])

    def test_a_bound_where_counts_are_answered(self):
        command = self.python("import torch\nw = torch.nn.Parameter(torch.ones(1, device='cuda'))\n"
                              "optimizer = torch.optim.SGD([w], 0.1)\nfor step in range(3):\n"
                              "    x = torch.randn(64, 1 << 20, device='cuda')\n    kept = x[x[:, 0] > 0]\n"
                              "    (w * 1.0).sum().backward()\n    optimizer.step()\n    del x, kept\n")
        half, most = (self.answer("--gpu", "h200", "--unknown-count", share, command=command)[0]["peak"]["allocated_bytes"]
                      for share in ("0.5", "max"))
        self.assertEqual(most - half, 32 * 4 << 20)  # the other 32 rows of 4 MiB

    def test_known_attention_masks_are_not_unknown(self):
        if not has("transformers"):
            self.skipTest("transformers is not installed")
        answer, _ = self.answer("--gpu", "rtx3090", command=self.python("""
import torch
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
ones = torch.ones(4, 32, dtype=torch.long)
for step in range(3):
    model(input_ids=ones.cuda(), attention_mask=ones.cuda(), labels=ones.cuda()).loss.backward()
    optimizer.step()
"""))
        self.assertEqual(answer["verdict"], "fits")
        self.assertEqual([r for r in answer["harmless_reads"] if "mask" in r["where"]], [])

    def test_values_that_do_not_are_listed(self):
        text = TRAIN.format(steps=3, batch=8) + "    \n"
        text = text.replace('    print("loss"', '    right = (model(x).argmax(1) == 1).sum().item()\n    print("loss"')
        answer, _ = self.answer("--gpu", "h200", command=self.python(text))
        reasons = {read["where"]: read["reason"] for read in answer["harmless_reads"]}
        self.assertEqual(reasons["train.py:12: loss.item()"], "a floating-point number")
        self.assertIn("no request depends on it", reasons["train.py:11: (model(x).argmax(1) == 1).sum().item()"])

    def test_a_script_that_fails_shows_its_own_traceback(self):
        done = self.run_memmodel("--gpu", "h200", command=self.python("import torch\ntorch.zeros(1).cuda()\nraise ValueError('mine')"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("ValueError: mine", done.stderr)
        self.assertIn("memmodel: the script failed on its own after 0 of 3 steps: ValueError: mine", done.stderr)

    def test_refusals_say_what_to_do(self):
        train = self.script(TRAIN.format(steps=3, batch=8))
        for command, code, message in (
                ([sys.executable, "-I", train], 2, "-I"),
                ([sys.executable, self.script("print('no torch')", "none.py")], 3, "without importing torch"),
                ([sys.executable, self.script("import torch\ntorch.zeros(1)", "cpu.py")], 3, "without using CUDA"),
                (["/nonexistent/python", train], 2, "cannot start '/nonexistent/python'"),
                (["true"], 2, "started no Python")):
            done = self.run_memmodel("--gpu", "h200", command=command)
            self.assertEqual((done.returncode, message in done.stderr), (code, True), (command, done.stderr[-500:]))

    def test_a_torch_that_cannot_be_used_is_named(self):
        for cuda, message in (("None", "a CPU-only build"), ("'12.8'", "built for CUDA 12.8")):
            package = os.path.join(self.folder.name, cuda.strip("'"), "torch")
            os.makedirs(package)
            with open(os.path.join(package, "__init__.py"), "w"):
                pass
            with open(os.path.join(package, "version.py"), "w") as file:
                file.write("__version__ = '2.11.0'\ncuda = %s\nhip = None\n" % cuda)
            done = self.run_memmodel("--gpu", "h200", command=[sys.executable, "-c", "import torch"],
                                     environment={"PYTHONPATH": os.path.dirname(package)})
            self.assertEqual((done.returncode, message in done.stderr), (2, True), done.stderr)

    def test_workers_of_a_data_loader_and_the_users_sitecustomize(self):
        with open(os.path.join(self.folder.name, "sitecustomize.py"), "w") as file:
            file.write("import builtins\nbuiltins.MINE = 1\n")
        text = """
import torch
if __name__ == "__main__":
    print("MINE", MINE)
    data = torch.utils.data.TensorDataset(torch.randn(64, 16))
    model = torch.nn.Linear(16, 16).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for context in ("fork", "spawn"):
        for (x,) in torch.utils.data.DataLoader(data, batch_size=16, num_workers=2, multiprocessing_context=context):
            model(x.cuda()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    print("DONE")
"""
        done = self.run_memmodel("--gpu", "h200", "--steps", "0", command=self.python(text),
                                 environment={"PYTHONPATH": self.folder.name})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("MINE 1\n", done.stderr)
        self.assertIn("DONE\n", done.stderr)

    def test_find_batch_is_the_last_that_fits(self):
        # 24 MiB of activations a sample, so that the answer is some dozens.
        text = TRAIN.format(steps=3, batch="int(__import__('sys').argv[1]) * 512").replace(
            "1024).cuda()\n    loss", "1024, device='cuda')\n    loss")
        answer, _ = self.answer("--gpu", "h200", "--gpu-mem", "2G", "--find-batch", command=self.python(text, "{batch}"))
        outcomes = {probe["batch"]: probe["outcome"] for probe in answer["probes"] if probe["outcome"] != "measured"}
        fits, runs = answer["largest_batch"], answer["largest_batch_before_oom"]
        self.assertEqual(outcomes[fits], "fits")
        self.assertNotEqual(outcomes[fits + 1], "fits")
        self.assertNotEqual(outcomes[runs], "out of memory")
        self.assertEqual(outcomes[runs + 1], "out of memory")

    @unittest.skipUnless(has("pynvml"), "pynvml is not installed")
    def test_nvml_and_torch_see_the_same_card(self):
        text = """
import pynvml, torch
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
before = pynvml.nvmlDeviceGetMemoryInfo(handle).free, torch.cuda.mem_get_info()[0]
block = torch.empty(2**30, dtype=torch.uint8, device="cuda")
after = pynvml.nvmlDeviceGetMemoryInfo(handle).free, torch.cuda.mem_get_info()[0]
print("COUNT", pynvml.nvmlDeviceGetCount(), torch.cuda.device_count())
print("TAKEN", before[1] - after[1], "NVML AND TORCH", after[0] - after[1])
"""
        _, output = self.answer("--gpu", "h200", "--gpus", "2", "--steps", "0", command=self.python(text))
        self.assertIn("COUNT 2 2\n", output)
        self.assertRegex(output, r"TAKEN 1073741824 ")

    def test_ranks_exchange_what_they_know(self):
        text = """
import os, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
total = torch.tensor([rank + 1], device="cuda")
dist.all_reduce(total)
said = [None, None]
dist.all_gather_object(said, "x" * (1 + rank))
sent = [{"from": 0}, "more"] if rank == 0 else [None, None]
dist.broadcast_object_list(sent, src=0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256).cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.randn(8, 256).cuda()).sum().backward()
    optimizer.step()
os.write(1, f"RANK {rank} {total.item()} {[len(s) for s in said]} {sent}\\n".encode())  # one write: lines do not mix
"""
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", self.script(text)]
        answer, output = self.answer("--gpu", "h200", "--gpus", "2", "--steps", "0", command=command)
        for rank in (0, 1):
            self.assertRegex(output, r"RANK %d 3 \[1, 2\] \[\{'from': 0\}, 'more'\]" % rank)
        self.assertEqual([rank["rank"] for rank in answer["ranks"]], [0, 1])
        done = self.run_memmodel("--gpu", "h200", command=command)
        self.assertEqual((done.returncode, "--gpus 2" in done.stderr), (2, True), done.stderr[-500:])

    def test_torch_compile_is_refused_unless_eager(self):
        text = TRAIN.format(steps=3, batch=8).replace("optimizer =", "model = torch.compile(model)\noptimizer =")
        done = self.run_memmodel("--gpu", "h200", command=self.python(text))
        self.assertEqual((done.returncode, "--eager" in done.stderr), (3, True), done.stderr[-1000:])
        self.answer("--gpu", "h200", "--eager", command=self.python(text))

    @unittest.skipUnless(has("lightning"), "lightning is not installed")
    def test_a_lightning_module_from_its_own_package(self):
        text = """
import lightning.pytorch as pl
from lightning.pytorch.demos.boring_classes import BoringModel
pl.Trainer(max_steps=10, logger=False, enable_checkpointing=False, accelerator="gpu").fit(BoringModel())
"""
        answer, _ = self.answer("--gpu", "h200", command=self.python(text))
        self.assertEqual(answer["steps_done"], 3)

    @unittest.skipUnless(has("transformers") and has("accelerate"), "transformers.Trainer is not installed")
    def test_transformers_trainer(self):
        text = """
import torch, transformers
config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=512)
data = [{"input_ids": torch.zeros(64, dtype=torch.long), "labels": torch.zeros(64, dtype=torch.long)}] * 64
arguments = transformers.TrainingArguments("out", max_steps=10, per_device_train_batch_size=4, report_to=[],
                                           logging_steps=1, save_strategy="no")
transformers.Trainer(transformers.GPT2LMHeadModel(config), arguments, train_dataset=data).train()
"""
        answer, _ = self.answer("--gpu", "h200", command=self.python(text))
        self.assertEqual((answer["steps_done"], answer["batch"]), (3, 4))


if __name__ == "__main__":
    unittest.main(verbosity=2)
