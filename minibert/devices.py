"""Which device, which precision, how much memory: decided once, and said aloud before the first step."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
from pathlib import Path

import torch

from .cli import UserError
from .config import EncoderConfig


def choose_device(asked: str = "auto", local_rank: int = 0) -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU. Raises UserError for a device this machine or torch lacks."""
    if asked == "auto":
        asked = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if asked == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: this torch sees no CUDA device; use --device cpu, or install a CUDA build of torch.")
    if asked == "mps" and not torch.backends.mps.is_available():
        raise UserError("--device mps: this torch sees no Apple GPU; use --device cpu.")
    if asked not in ("cuda", "mps", "cpu"):
        raise UserError(f"--device {asked}: use auto, cuda, mps or cpu.")
    return torch.device("cuda", local_rank) if asked == "cuda" else torch.device(asked)


def cpu_has_bf16() -> bool:
    """Whether this CPU multiplies bf16 natively. Without it bf16 is emulated, tens of times slower than fp32."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def choose_precision(device: torch.device, amp: str | None) -> tuple[str, str]:
    """(precision, remark): what `--amp` means on this device; the remark is "" when there is nothing to say.

    `amp` None is fp32. "auto" is fp16 with loss scaling on CUDA and fp16 on MPS, bf16 on a CPU that has the
    instructions. An explicit "bf16"/"fp16" that the device cannot do is refused, but for bf16 on a CPU without the
    instructions, which stays in fp32 and says so (Micikevicius et al. 2018 for fp16 with loss scaling; bf16 keeps
    fp32's exponent and needs none).
    """
    if amp is None:
        return "fp32", ""
    if device.type == "cpu":
        if amp == "fp16":
            raise UserError("--amp fp16 needs a GPU: on the CPU use --amp bf16 or leave --amp out.")
        if not cpu_has_bf16():
            return "fp32", "--amp: this CPU has no bf16 instructions, where bf16 is far slower than fp32; staying in fp32."
        return "bf16", ""
    if device.type == "mps":
        if amp == "bf16":
            raise UserError("--amp bf16 is not offered on MPS: use --amp fp16 or leave --amp out.")
        return "fp16", "--amp on MPS: fp16 autocast without loss scaling; if the loss stops being finite, leave --amp out."
    if amp == "bf16" and not torch.cuda.is_bf16_supported():
        raise UserError("--amp bf16: this GPU has no bf16; use --amp fp16.")
    return ("fp16" if amp == "auto" else amp), ""


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """fp32 is no autocast at all; the others cast matrix products only (softmax, LayerNorm, losses stay fp32)."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16 if precision == "bf16" else torch.float16)


def make_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler:
    """Loss scaling is for fp16 on CUDA alone; elsewhere the scaler is disabled and passes everything through."""
    return torch.amp.GradScaler(device.type, enabled=device.type == "cuda" and precision == "fp16")


def pass_tokens(device: torch.device, hidden_size: int) -> int | None:
    """The most tokens a training pass should hold, padding included; None where more are always better.

    On a CPU the activations of a layer are read again while they lie in the cache only if they are few: one step on
    16 texts of 512 tokens (MiniLM, one core) takes a fifth less time in passes of 2,048 tokens than in one, and BERT-base
    likes half as many. The gradient is that of the whole step either way, as with --accum.
    """
    return max(1, 2048 * 384 // hidden_size) if device.type == "cpu" else None


def describe(device: torch.device, precision: str) -> str:
    """One line: device, its memory, threads, precision, versions."""
    if device.type == "cuda":
        p = torch.cuda.get_device_properties(device)
        where = f"{p.name}, {p.total_memory / 2**30:.0f} GiB, TF32 {'on' if torch.backends.cuda.matmul.allow_tf32 else 'off'}"
    elif device.type == "mps":
        where = "Apple GPU"
    else:
        where = f"{platform.machine()}, {torch.get_num_threads()} threads, {total_memory() / 2**30:.0f} GiB"
    return f"device      {device} ({where}), {precision}, torch {torch.__version__}, Python {platform.python_version()}"


def total_memory() -> int:
    """Bytes of main memory (0 where the system does not tell)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def memory_plan(config: EncoderConfig, trained: int, frozen: int, rows: int, length: int, *, precision: str,
                attention_dropout: float, hidden_dropout: float, fused_attention: bool) -> dict[str, int]:
    """Bytes a training step needs, by purpose.

    Weights, gradients and AdamW's two moments are 4 bytes a parameter each (438 MB each for BERT-base).
    Activations kept for the backward pass, per token and layer, in units of hidden_size D and intermediate_size F:
    inputs and outputs of attention (q, k, v, context, projection) 6D; the two sums before and after the LayerNorms
    4D; the feed-forward's hidden layer before and after GELU 2F; two dropout masks 2D; with unfused attention also
    scores, probabilities and their mask, 3·H·S; of the last layer, computed for [CLS] alone, keys and values, 2D.
    Autocast keeps half-size copies of what enters matrix products.
    On top, while the backward pass is inside a layer, the gradients of what that layer computed: 2F + 6D, and 3·H·S.
    tests/benchmarks/memory_plan.py holds it against what steps take: 0.93 to 1.18 of it on a CPU in fp32.
    """
    D, F, S, H = config.hidden_size, config.intermediate_size, length, config.num_attention_heads
    size = 4 if precision == "fp32" else 2
    per_token = size * (6 * D + 2 * F) + 4 * (4 * D) + (4 * 2 * D if hidden_dropout > 0 else 0)
    if precision != "fp32":
        per_token += size * 2 * D  # the casts of the LayerNorm outputs
    working = size * (2 * F + 6 * D)
    if not fused_attention:
        per_token += 4 * H * S * (3 if attention_dropout > 0 else 2)
        working += 4 * H * S * 3
    weights = 4 * (trained + frozen)
    casts = 0 if precision == "fp32" else 2 * trained
    layers = (config.num_hidden_layers - 1) * per_token + size * 2 * D
    return {"weights": weights + casts, "gradients": 4 * trained, "adam": 8 * trained,
            "activations": rows * S * (layers + working + 4 * 6 * D)}


def peak_memory(device: torch.device) -> int:
    """The most bytes in use so far: on the GPU, or of the whole process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def resident_memory() -> int:
    """Bytes of main memory this process holds now (0 where the system does not tell)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def out_of_memory(error: BaseException) -> bool:
    """Whether torch ran out of memory (CUDA, MPS and the CPU say it differently)."""
    text = str(error).lower()
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text
                                             or "not enough memory" in text))


def git_commit() -> str | None:
    """The commit of the checkout this package lies in, or None."""
    try:
        r = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return r.stdout.strip() if r.returncode == 0 else None
