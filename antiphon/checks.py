"""What `antiphon doctor` looks at: each check returns a finding and what to do about it."""

import http.client
import importlib.metadata
import importlib.util
import platform
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from antiphon.config import Config
from antiphon.cores import engine_threads, usable_cores
from antiphon.models import ModelState, ModelStore, cache_directory
from engines.errors import AntiphonError

_GIGABYTE = 1e9
# The tiny preset in float32 is 0.9 GB of weights; torch, caches and activations want the rest.
_MEMORY_WANTED_BYTES = 3 * _GIGABYTE
_FAST_FLAGS = {
    "amx_bf16": "AMX",
    "avx512_bf16": "AVX-512 BF16",
    "avx512f": "AVX-512",
    "avx2": "AVX2",
    "asimd": "NEON",
}


class Verdict(StrEnum):
    """Says how good a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """Is the outcome of one check; `advice` says what to do and is empty when all is well."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""


def run_checks(config: Config, store: ModelStore) -> Iterator[Finding]:
    """Yields the findings one by one, as each check ends."""
    yield check_python()
    yield check_cores()
    yield check_memory()
    yield check_cpu_flags(config.models.dtype)
    yield check_torch(config.engine.threads)
    yield check_gpu()
    yield check_tensorrt_llm()
    for name in (config.models.asr, config.models.lm, config.models.vad, config.models.voice):
        yield check_model(store, name)
    yield check_voice_software(config.models.voice)
    yield check_port(config.server.host, config.server.port, "http port")
    yield check_port(config.server.host, config.server.grpc_port, "grpc port")
    yield check_disk(store)


def check_python(version: tuple[int, int] | None = None) -> Finding:
    """Looks at the interpreter's version."""
    major, minor = version or sys.version_info[:2]
    supported = (3, 11) <= (major, minor) < (3, 14)
    return Finding(
        "python",
        Verdict.OK if supported else Verdict.FAIL,
        f"{major}.{minor} in {sys.prefix}",
        "" if supported else "use Python 3.11 to 3.13: make install PYTHON=python3.12",
    )


def check_cores(count: int | None = None) -> Finding:
    """Counts the cores that this process may use."""
    cores = count or usable_cores()
    if cores >= 2:
        return Finding("cores", Verdict.OK, f"{cores}")
    return Finding(
        "cores", Verdict.WARN, f"{cores}", "with fewer than 2 cores replies will not keep real time"
    )


def check_memory(available_bytes: float | None = None) -> Finding:
    """Looks at how much memory can still be had."""
    free = available_bytes if available_bytes is not None else _available_memory_bytes()
    if free is None:
        return Finding("memory", Verdict.WARN, "unknown on this system")
    found = f"{free / _GIGABYTE:.1f} GB available"
    if free >= _MEMORY_WANTED_BYTES:
        return Finding("memory", Verdict.OK, found)
    wanted = f"{_MEMORY_WANTED_BYTES / _GIGABYTE:.0f} GB"
    return Finding("memory", Verdict.WARN, found, f"close other programs; {wanted} is comfortable")


def _available_memory_bytes() -> float | None:
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def check_cpu_flags(dtype: str, cpuinfo: str | None = None) -> Finding:
    """Looks for the instructions that make bfloat16 fast."""
    if cpuinfo is None:
        path = Path("/proc/cpuinfo")
        cpuinfo = path.read_text() if path.exists() else ""
    flags = set(cpuinfo.split())
    present = [label for flag, label in _FAST_FLAGS.items() if flag in flags]
    found = f"{platform.machine()}, {', '.join(present) or 'no vector extension that we know'}"
    if flags & {"amx_bf16", "avx512_bf16", "asimd"} or dtype != "bfloat16":
        return Finding("cpu", Verdict.OK, found)
    return Finding("cpu", Verdict.WARN, found, "bfloat16 will be slow here; keep models.dtype auto")


def check_torch(threads: int | None) -> Finding:
    """Looks at torch's version and at how many threads it will use."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("torch", Verdict.FAIL, f"cannot be imported ({error})", "make install")
    used, cores = engine_threads(threads), usable_cores()
    found = f"{torch.__version__}, {used} threads"
    if used >= cores > 1:
        advice = f"set engine.threads below {cores}: a gateway without a core stalls every step"
        return Finding("torch", Verdict.WARN, found, advice)
    return Finding("torch", Verdict.OK, found)


def check_gpu() -> Finding:
    """Looks for a GPU that torch can use."""
    if importlib.util.find_spec("torch") is None:
        return Finding("gpu", Verdict.WARN, "unknown without torch", "make install")
    import torch

    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(0)
        memory = f"{gpu.total_memory / _GIGABYTE:.0f} GB"
        return Finding("gpu", Verdict.OK, f"{torch.cuda.device_count()} x {gpu.name}, {memory}")
    if shutil.which("nvidia-smi"):
        return Finding(
            "gpu",
            Verdict.WARN,
            "there is an NVIDIA driver that this torch cannot use",
            f"install a CUDA build of torch (this one is {torch.__version__}) or update the driver",
        )
    return Finding("gpu", Verdict.OK, "none; the CPU is used")


def check_tensorrt_llm() -> Finding:
    """Looks for TensorRT-LLM without importing it, which takes long and needs a GPU."""
    if importlib.util.find_spec("tensorrt_llm") is None:
        return Finding("tensorrt-llm", Verdict.OK, "not installed; the torch engine is used")
    version = importlib.metadata.version("tensorrt-llm")
    return Finding("tensorrt-llm", Verdict.OK, f"{version} is importable")


def check_model(store: ModelStore, name: str) -> Finding:
    """Reads a model and compares its digests."""
    label = f"model {name}"
    fetch = f"antiphon models fetch {name}"
    try:
        state = store.state(name)
        if state is ModelState.ABSENT and name not in store.local_names:
            return Finding(label, Verdict.WARN, "not fetched yet", f"{fetch} (make serve does it)")
        directory = store.verify(name)
    except AntiphonError as error:
        return Finding(label, Verdict.FAIL, str(error), fetch)
    checked = "a path of yours, unpinned" if state is ModelState.LOCAL else "verified"
    return Finding(label, Verdict.OK, f"{checked}, {directory}")


def check_voice_software(voice: str) -> Finding:
    """Looks for what the voice is spoken through."""
    if importlib.util.find_spec("piper") is not None:
        version = importlib.metadata.version("piper-tts")
        return Finding("piper", Verdict.OK, f"piper-tts {version} (GPL-3.0) speaks {voice}")
    return Finding(
        "piper",
        Verdict.FAIL,
        f"piper-tts is not installed, and {voice} is spoken through it",
        "pip install 'antiphon[piper]' (GPL-3.0)",
    )


def check_port(host: str, port: int, name: str) -> Finding:
    """Tries to bind an address, and asks who is there if that fails."""
    if port == 0:
        return Finding(name, Verdict.OK, "chosen by the system")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind((host, port))
        except OSError as error:
            if _answers_health(host, port) or _answers_grpc_health(host, port):
                return Finding(name, Verdict.OK, f"{port}: an Antiphon server is running there")
            advice = "stop what listens there, or choose another port"
            return Finding(name, Verdict.FAIL, f"{host}:{port}: {error.strerror}", advice)
    return Finding(name, Verdict.OK, f"{host}:{port} is free")


def _answers_health(host: str, port: int) -> bool:
    address = f"[{host}]" if ":" in host else host
    try:
        with urllib.request.urlopen(f"http://{address}:{port}/healthz", timeout=1.0) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return False
    except (OSError, ValueError, http.client.HTTPException):  # the last: it is no HTTP server
        return False


def _answers_grpc_health(host: str, port: int) -> bool:
    import grpc  # type: ignore[import-untyped]  # grpcio ships no types
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # ditto

    address = f"[{host}]" if ":" in host else host
    with grpc.insecure_channel(f"{address}:{port}") as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1.0)
        except grpc.RpcError:
            return False
    return True


def check_disk(store: ModelStore, free_bytes: float | None = None) -> Finding:
    """Looks at whether the models that are still to be fetched will fit."""
    folder = cache_directory()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = free_bytes if free_bytes is not None else shutil.disk_usage(existing).free
    absent = [e for e in store.catalogue if store.state(e.name) is ModelState.ABSENT]
    wanted = sum(entry.peak_bytes for entry in absent)
    found = f"{free / _GIGABYTE:.1f} GB free in {existing}"
    if free >= wanted:
        return Finding("disk", Verdict.OK, found)
    advice = f"models still to fetch want {wanted / _GIGABYTE:.1f} GB; or set ANTIPHON_CACHE_DIR"
    return Finding("disk", Verdict.FAIL, found, advice)
