"""The memory of the packaged embedder, beside that of a process that only runs its model."""

import subprocess
import sys
from typing import Final

import pytest

_SHARE: Final = 1.2
_TEXTS: Final = """
TEXTS = [f"snow covered every rail {number}, so our train lost an hour " * 2 ** (number % 5) for number in range(48)]
def print_memory():
    with open("/proc/self/status") as status:
        print(status.read().partition("VmRSS:")[2].split()[0])
"""
_BARE: Final = """
import ctypes, numpy, onnxruntime
from tokenizers import Tokenizer
from knowhub.providers.local_embedder import find_packaged_model
files = find_packaged_model()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.enable_cpu_mem_arena = False
tokenizer = Tokenizer.from_file(str(files.tokenizer))
session = onnxruntime.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
ids = numpy.array([tokenizer.encode(TEXTS[0]).ids])
names = [given.name for given in session.get_inputs()]
session.run(None, {name: ids if name == "input_ids" else numpy.ones_like(ids) for name in names})
ctypes.CDLL(None).malloc_trim(0)
print_memory()
"""
_PRODUCT: Final = """
import asyncio
from knowhub.providers.local_embedder import LocalEmbedder, find_packaged_model
async def embed():
    embedder = LocalEmbedder(find_packaged_model(), trim_pause_s=0.1)
    print_memory()
    await embedder.embed(TEXTS, 300)
    await embedder.embed(TEXTS[:1], 300, query=True)
    await asyncio.sleep(1)
    print_memory()
    embedder.close()
asyncio.run(embed())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_embedder_needs_little_more_memory_than_its_model() -> None:
    (bare,) = measure(_BARE)
    opened, used = measure(_PRODUCT)

    assert opened <= _SHARE * bare
    assert used <= _SHARE * bare


def measure(program: str) -> list[int]:
    """Run a program in a process of its own, and return the figures that it prints, in KiB."""
    ran = subprocess.run([sys.executable, "-c", _TEXTS + program], capture_output=True, check=True, timeout=300)
    return [int(figure) for figure in ran.stdout.split()]
