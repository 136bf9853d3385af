"""What GPUs can do at most: memory, memory bandwidth and dense arithmetic, as their makers publish it.

Makers' sheets often print arithmetic "with sparsity", which is twice the dense figure; decoding uses dense one. GeForce
and RTX cards are given with accumulation in 32 bits, which is what inference kernels use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from specwatch.errors import InputError

_TERA = 1e12
_GIGA = 1e9


@dataclass(frozen=True)
class Gpu:
    """One GPU; bytes, bytes per second, operations per second."""

    name: str
    memory: float
    bandwidth: float
    flops_16: float
    """Dense, on 16-bit numbers (bfloat16)."""
    flops_8: float | None
    """Dense, on 8-bit floating point; None where the GPU multiplies those as 16-bit numbers."""
    source: str
    """The document that says so."""

    def flops(self, value_bits: float) -> float:
        """Operations per second on activations of so many bits."""
        return self.flops_8 if self.flops_8 is not None and value_bits <= 8 else self.flops_16


def _gpu(
    name: str, memory_gb: float, bandwidth_gb: float, tflops_16: float, tflops_8: float | None, source: str
) -> Gpu:
    eight = tflops_8 * _TERA if tflops_8 else None
    return Gpu(name, memory_gb * _GIGA, bandwidth_gb * _GIGA, tflops_16 * _TERA, eight, source)


_A100 = "NVIDIA A100 Tensor Core GPU datasheet, 2021"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet, 2023 to 2024; half of its figures with sparsity"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet, 2024; half of its figures with sparsity"
_BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief, 2024, per GPU, dense"
_HGX = "NVIDIA HGX platform specifications, 2025, an eighth of the system; half of the figures with sparsity"
_ADA = "NVIDIA Ada GPU Architecture whitepaper, 2023, accumulation in FP32"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper, 2025, accumulation in FP32"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper, 2021, accumulation in FP32"
_PRO_BLACKWELL = (
    "NVIDIA RTX PRO 6000 Blackwell datasheet, 2025: 4000 FP4 TOPS with sparsity, an eighth of them at 16 bits"
)

GPUS: tuple[Gpu, ...] = (
    _gpu("A100 SXM 80GB", 80, 2039, 312, None, _A100),
    _gpu("A100 SXM 40GB", 40, 1555, 312, None, _A100),
    _gpu("A100 PCIe 80GB", 80, 1935, 312, None, _A100),
    _gpu("A100 PCIe 40GB", 40, 1555, 312, None, _A100),
    _gpu("A30", 24, 933, 165, None, "NVIDIA A30 Tensor Core GPU datasheet, 2021"),
    _gpu("A40", 48, 696, 149.7, None, "NVIDIA A40 datasheet, 2021"),
    _gpu("A10", 24, 600, 125, None, "NVIDIA A10 datasheet, 2021"),
    _gpu("L4", 24, 300, 121, 242, "NVIDIA L4 Tensor Core GPU datasheet, 2023; half of its figures with sparsity"),
    _gpu("L40", 48, 864, 181, 362, "NVIDIA L40 datasheet, 2023"),
    _gpu("L40S", 48, 864, 362, 733, "NVIDIA L40S datasheet, 2023"),
    _gpu("H100 SXM", 80, 3350, 989, 1979, _H100),
    _gpu("H100 PCIe", 80, 2000, 756, 1513, _H100),
    _gpu("H100 NVL", 94, 3900, 835, 1671, _H100),
    _gpu("H200 SXM", 141, 4800, 989, 1979, _H200),
    _gpu("H200 NVL", 141, 4800, 835, 1671, _H200),
    _gpu("GH200 96GB", 96, 4000, 989, 1979, "NVIDIA GH200 Grace Hopper Superchip datasheet, 2023"),
    _gpu("GH200 144GB", 144, 4900, 989, 1979, "NVIDIA GH200 Grace Hopper Superchip datasheet, 2023"),
    _gpu("B200 SXM", 180, 7700, 2250, 4500, _HGX),
    _gpu("B300 SXM", 288, 8000, 2250, 4500, _HGX),
    _gpu("GB200", 186, 8000, 2500, 5000, _BLACKWELL),
    _gpu("RTX PRO 6000 Blackwell", 96, 1792, 500, 1000, _PRO_BLACKWELL),
    _gpu("RTX 6000 Ada", 48, 960, 364, 728, "NVIDIA RTX 6000 Ada Generation datasheet, 2022: 1457 FP8 with sparsity"),
    _gpu("RTX A6000", 48, 768, 154.8, None, "NVIDIA RTX A6000 datasheet, 2021; half of its figure with sparsity"),
    _gpu("RTX 5090", 32, 1792, 209.5, 419, _RTX_BLACKWELL),
    _gpu("RTX 4090", 24, 1008, 165.2, 330.3, _ADA),
    _gpu("RTX 3090", 24, 936, 71, None, _GA102),
    _gpu("MI210", 64, 1638, 181, None, "AMD Instinct MI210 data sheet, 2022"),
    _gpu("MI300X", 192, 5300, 1307.4, 2614.9, "AMD Instinct MI300X data sheet, 2023"),
    _gpu("MI325X", 256, 6000, 1307.4, 2614.9, "AMD Instinct MI325X data sheet, 2024"),
    _gpu("MI350X", 288, 8000, 2306.9, 4613.7, "AMD Instinct MI350X data sheet, 2025"),
    _gpu("MI355X", 288, 8000, 2516.6, 5033.2, "AMD Instinct MI355X data sheet, 2025"),
)
"""Current data-centre and workstation GPUs."""


def find(name: str) -> Gpu:
    """The GPU of that name, however its words are spelled; InputError listing what fits, where it is none or several.

    ``h100-sxm``, ``H100 SXM`` and nvidia-smi's ``NVIDIA H100 80GB HBM3`` name the same one; ``H100`` names three.
    """
    words = _words(_SMI_NAMES.get(" ".join(_words(name)), name))
    exact = [gpu for gpu in GPUS if _words(gpu.name) == words]
    found = exact or [gpu for gpu in GPUS if words and set(words) <= set(_words(gpu.name))]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"--gpu {name}: which one? {_listed(found)}")
    raise InputError(
        f"--gpu {name}: not in the table (--list-gpus shows it); give its --bandwidth, --flops and --memory instead"
    )


_SMI_NAMES = {
    "a100 sxm4 80gb": "A100 SXM 80GB",
    "a100 sxm4 40gb": "A100 SXM 40GB",
    "a100 80gb pcie": "A100 PCIe 80GB",
    "a100 pcie 40gb": "A100 PCIe 40GB",
    "h100 80gb hbm3": "H100 SXM",
    "h200": "H200 SXM",
    "b200": "B200 SXM",
    "b300": "B300 SXM",
}
"""What nvidia-smi calls GPUs whose name in the table is another."""


def _words(name: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return [word for word in words if word not in ("nvidia", "amd", "instinct", "geforce", "generation", "gpu")]


def _listed(gpus: Iterable[Gpu]) -> str:
    return ", ".join(gpu.name for gpu in gpus)
