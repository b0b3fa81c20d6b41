"""Compiles every kernel for a card that need not be here, and says what it takes of it.

    python -P tests/kernels/compile_kernels.py [CAPABILITY, 90 by default] [all]

One kernel a line: shared memory, registers, spills, the card's own instructions in it.
test_triton.py runs it with every feature on; `all` adds other dtypes and plain pointers.
"""

import re
import subprocess
import sys
import tempfile
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from rlvr_cli.kernels import (
    attention,
    triton_attention,
    triton_backward,
    triton_causal,
    triton_checks,
    triton_coded,
    triton_draw,
    triton_forward,
    triton_invariant,
    triton_sample,
    triton_upstream,
)
from rlvr_cli.kernels.drawing import APART
from rlvr_cli.kernels.triton_tiles import _FLOAT32, _SHALLOW, AMPERE, Tiles

DTYPES = {"bf16": tl.bfloat16, "fp16": tl.float16, "fp32": tl.float32}
INTEGERS = "N V K W first groups steps position stride top_k"
STRIDES = "stride_x stride_w stride_e stride_d stride_m stride_v"
FLOATS = "scale cap mu spread top_p by_cap inverse"
IDS = "target topk ids seeds positions token source"
COUNTS = "count active rank"
MARKS = ("wgmma", "cp.async.bulk.tensor", "mma.sync", "lg2.approx")
TYPES = {
    **dict.fromkeys(f"{INTEGERS} {STRIDES}".split(), "i32"),
    **dict.fromkeys(FLOATS.split(), "fp32"),
    **dict.fromkeys(IDS.split(), "*i64"),
    **dict.fromkeys(COUNTS.split(), "*i32"),
}


def compile_one(
    name: str, kernel: Any, types: dict[str, str], constants: dict[str, Any], **options
):
    """Prints what the kernel takes; arguments without a type are float32 pointers."""
    names = kernel.arg_names
    types = TYPES | types
    signature = {n: "constexpr" if n in constants else types.get(n, "*fp32") for n in names}
    aligned = [n for n in names if n not in constants and (n[0:6] == "stride" or n in ("V", "W"))]
    pointers = [n for n in names if signature[n].startswith("*")]
    source = ASTSource(
        kernel,
        signature,
        constexprs={(names.index(n),): value for n, value in constants.items()},
        attrs={(names.index(n),): [["tt.divisibility", 16]] for n in aligned + pointers},
    )
    result = triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32), options=options)
    ptx = result.asm["ptx"]
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        card = f"sm_{CAPABILITY}a" if CAPABILITY >= 90 else f"sm_{CAPABILITY}"
        said = subprocess.run(
            [get_ptxas(CAPABILITY).path, "-v", f"--gpu-name={card}", file.name, "-o", "/dev/null"],
            capture_output=True, text=True, check=True,
        ).stderr  # fmt: skip
    used = re.findall(r"Used \d+ registers|\d+ bytes spill stores", said)
    marks = [word for word in MARKS if word in ptx]
    print(f"{name}: {result.metadata.shared} bytes shared, {', '.join(used + marks)}", flush=True)


def products(dtype: str, tiles: Tiles, tma: bool, full: bool, hidden: int) -> None:
    """The kernels around a product of [N, hidden] and [V, hidden]."""
    rows, columns, depth = tiles[:3]

    def operand(height: int, width: int) -> str:
        return f"tensordesc<{dtype}[{height}, {width}]>" if tma else f"*{dtype}"

    types = {"x": operand(rows, depth), "w": operand(columns, depth), "bias": f"*{dtype}"}
    types |= {"stash": operand(rows, columns), "out": operand(rows, columns)}
    constants = {
        "H": hidden, "BM": rows, "BN": columns, "BK": depth, "GROUP": tiles.group, "TMA": tma,
        "BIAS": full, "CAP": full, "WIDEN": False, "DTYPE": DTYPES[dtype],
    }  # fmt: skip
    options = {"num_warps": tiles.warps, "num_stages": tiles.stages}
    name = f"{dtype}{' tma' if tma else ''}{' bias cap' if full else ''} H={hidden}"
    flags = {"STASH": True, "TARGET": True, "GROUP_MAX": full, "GC": 32}
    compile_one(
        f"forward {name}", triton_forward._forward_kernel, types, constants | flags, **options
    )
    compile_one(f"slice {name}", triton_backward.slice_kernel, types, constants, **options)


def others(k: int, cap: bool) -> None:
    chosen = {"K": k, "KP": triton.next_power_of_2(max(1, k)), "CAP": cap}
    types = {"stash": "*bf16", "out": "*bf16", "x": "*bf16", "w": "*bf16", "bias": "*bf16"}
    for wide in (128, 256):
        stash = {"BN": wide, "R": 8192 // wide, "J": 151936 // wide + 1, "ENTROPY": True}
        name = f"stash {wide} cap={cap}"
        compile_one(name, triton_backward.stash_kernel, types, stash | {"CAP": cap}, num_warps=8)
    put = chosen | {"TARGET": True}
    compile_one(f"chosen k={k}", triton_backward.chosen_kernel, types, put, num_warps=1)
    position = {
        "H": 1536,
        "KP": chosen["KP"],
        "BH": 64,
        "GC": 1,
        "BIAS": cap,
        "CAP": cap,
        "MASS": True,
    }
    compile_one(f"logits k={k}", triton_forward._logits_at_kernel, types, position, num_warps=4)
    given = {"H": 1536, "K": k, "KP": chosen["KP"], "BR": 8, "BH": 512}
    types = {"hidden": "*bf16", "wrong": "*i32", "size": "i32"}
    compile_one(f"values k={k}", triton_checks.values_kernel, types, given, num_warps=4)


def main() -> None:
    everything = "all" in sys.argv
    tma = CAPABILITY >= 90
    small, large = (_SHALLOW, Tiles()) if tma else (AMPERE, AMPERE)
    for full in (True, False) if everything else (True,):
        products("bf16", small, tma, full, 1536)
        products("bf16", large, tma, full, 3584)
        others(8, full)
    if everything:
        products("fp16", large, tma, False, 3584)
        products("bf16", small, False, False, 1536)
        products("fp32", _FLOAT32, tma, False, 1536)
        others(64, True)
        others(0, False)
    flags = dict.fromkeys(("LOGP", "ENTROPY", "SUM", "ANCHOR"), True)
    compile_one("upstream", triton_upstream.upstream_kernel, {}, flags | {"BLOCK": 256})
    compile_one("source", triton_upstream.source_kernel, {}, {"BLOCK": 256})
    join = {"J": 594, "BJ": 128, "BR": 32}
    compile_one("join", triton_forward._join_kernel, {}, join, num_warps=4)
    sizes = {"V": 151936, "BLOCK": 4096, "SEARCH": 1024}
    logits = {"policy": "*bf16", "memory": "*bf16"}
    for way in (True, False) if everything else (True,):
        flags = dict.fromkeys(("MEMORY", "PLAUSIBLE", "NUCLEUS"), way)
        kernel = triton_sample._sample_kernel
        compile_one(f"sample, memory {way}", kernel, logits, sizes | flags, num_warps=16)
        draws(way)
    attention_of("bf16", full=True)
    coded_attention("bf16", full=True)
    invariant("bf16", True)
    if everything:
        invariant("bf16", False)
        invariant("fp32", False)
        attention_of("bf16", full=False)
        attention_of("fp32", full=False)
        coded_attention("bf16", full=False)
        coded_attention("fp32", full=False)


def draws(full: bool) -> None:
    """The kernels of noise in float32."""
    sizes = {"V": 151936, "MEMORY": full}
    share = {"BLOCK": APART, "SPLITS": 4, "SHARE": 19}
    search = {"BLOCK": APART, "LONG": triton_draw._LONG, "CAP": triton_draw._CAP}
    search |= {"PLAUSIBLE": full, "TOPK": full, "NUCLEUS": True}
    name = f"memory {full}"
    compile_one(f"share, {name}", triton_draw.share_kernel, {}, sizes | share, num_warps=4)
    compile_one(f"shares, {name}", triton_draw.join_kernel, {}, sizes | {"SPLITS": 4}, num_warps=1)
    for wide in list(triton_draw._WIDE.values())[: None if "all" in sys.argv else 1]:
        compile_one(
            f"search {wide}, {name}", triton_draw.search_kernel, {},
            sizes | search | {"WIDE": wide}, num_warps=8,
        )  # fmt: skip


def invariant(dtype: str, full: bool) -> None:
    """The kernels whose bits do not depend on the number of rows."""
    tma = full and CAPABILITY >= 90
    chosen = list(triton_invariant.TILES.values()) if CAPABILITY >= 90 else [AMPERE]
    for tiles in chosen if dtype == "bf16" else [_FLOAT32]:
        heights = {"x": tiles.rows, "w": tiles.columns}
        types = {
            name: f"tensordesc<{dtype}[{height}, {tiles.depth}]>" if tma else f"*{dtype}"
            for name, height in heights.items()
        }
        sizes = {"H": 1536, "BM": tiles.rows, "BN": tiles.columns, "BK": tiles.depth}
        flags = {"GROUP": tiles.group, "TMA": tma, "BIAS": full, "CAP": False, "WIDEN": False}
        types |= {"bias": f"*{dtype}", "out": f"*{dtype}", "stride_o": "i32"}
        name = f"product {dtype}{' tma' if tma else ''} {tiles.rows}"
        compile_one(name, triton_invariant.product_kernel, types, sizes | flags,
                    num_warps=tiles.warps, num_stages=tiles.stages)  # fmt: skip
    if full:
        sizes = {"H": 1536, "BLOCK": 1024}
        compile_one("mean square", triton_invariant.mean_square_kernel, {"x": f"*{dtype}"}, sizes)
    strides = [f"{name}_{of}" for name in "qkv" for of in ("row", "head", "at")]
    types = dict.fromkeys(strides, "i32") | {"softcap": "fp32", "window": "i32", "S": "i32"}
    types |= dict.fromkeys(("query", "key", "value", "out"), f"*{dtype}")
    block = 64 if dtype == "bf16" else 32
    sizes = {"H": 12, "G": 6, "D": 128, "DP": 128, "BLOCK": block}
    flags = {"WINDOW": full, "CAP": full, "WIDEN": False}
    compile_one(f"causal {dtype}{' window cap' if full else ''}", triton_causal.causal_kernel,
                types, sizes | flags, num_warps=4, num_stages=2)  # fmt: skip


def attention_of(dtype: str, full: bool) -> None:
    sizes = {"K": 2, "G": 6, "GP": 16, "D": 128, "DP": 128, "BLOCK": attention.BLOCK}
    pointers = dict.fromkeys(("query", "key", "value", "keys", "values", "out"), f"*{dtype}")
    types = pointers | {"position": "*i64", "softcap": "fp32", "window": "i32", "L": "i32"}
    flags = {"WINDOW": full, "CAP": full, "WIDEN": False}
    name = f"attend {dtype}{' window cap' if full else ''}"
    kernel = triton_attention.attend_kernel
    compile_one(name, kernel, types, sizes | flags, num_warps=4, num_stages=3)
    if dtype == "bf16":
        for block, warps, stages in triton_attention.BY_ROWS.values():
            compile_one(
                f"{name} {block}", kernel, types, sizes | flags | {"BLOCK": block},
                num_warps=warps, num_stages=stages,
            )  # fmt: skip


def coded_attention(dtype: str, full: bool) -> None:
    pairs, warps, stages = triton_coded._FLOAT32 if dtype == "fp32" else triton_coded.TILES
    sizes = {"K": 2, "G": 6, "GP": 16, "D": 128, "DP": 128, "P": pairs}
    types = dict.fromkeys(("query", "key", "value", "shift", "out"), f"*{dtype}")
    types |= {"keys": "*i8", "values": "*i8", "pairs": "*i16", "scales": "*fp32"}
    types |= {"position": "*i64", "softcap": "fp32", "window": "i32", "L": "i32"}
    flags = {"WINDOW": full, "CAP": full, "WIDE": dtype == "fp32"}
    compile_one(f"attend codes {dtype}{' window cap' if full else ''}", triton_coded.attend_kernel,
                types, sizes | flags, num_warps=warps, num_stages=stages)  # fmt: skip


CAPABILITY = next((int(word) for word in sys.argv[1:] if word.isdigit()), 90)

if __name__ == "__main__":
    main()
