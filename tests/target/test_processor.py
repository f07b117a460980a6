"""Processors are named from texts as Linux writes them."""

from __future__ import annotations

import pytest

from loomir.target.processor import describe_processor


def x86(vendor: str, family: int, model: int, name: str, stepping: int = 1) -> str:
    rows = (
        f"processor\t: {{}}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: {name}\nstepping\t: {stepping}\nflags\t\t: fpu vme de\n\n"
    )
    return rows.format(0) + rows.format(1)


def arm(*cores: tuple[int, int], name: str = "") -> str:
    blocks = [
        f"processor\t: {n}\nBogoMIPS\t: 50.00\nCPU implementer\t: {maker:#04x}\n"
        f"CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part:#05x}\n\n"
        for n, (maker, part) in enumerate(cores)
    ]
    return "".join(blocks) + (f"Hardware\t: BCM2835\nModel\t\t: {name}\n" if name else "")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (x86("AuthenticAMD", 25, 1, "AMD EPYC"), "AMD EPYC (Zen 3, family 25 model 1)"),
        (x86("AuthenticAMD", 25, 17, "AMD EPYC"), "AMD EPYC (Zen 4, family 25 model 17)"),
        (x86("AuthenticAMD", 25, 0xA0, "AMD EPYC"), "AMD EPYC (Zen 4c, family 25 model 160)"),
        (x86("AuthenticAMD", 25, 0x44, "A"), "A (Zen 3+, family 25 model 68)"),
        (x86("AuthenticAMD", 25, 0x21, "A"), "A (Zen 3, family 25 model 33)"),
        (x86("AuthenticAMD", 23, 0x31, "A"), "A (Zen 2, family 23 model 49)"),
        (x86("AuthenticAMD", 23, 0x08, "A"), "A (Zen+, family 23 model 8)"),
        (x86("AuthenticAMD", 23, 0x01, "A"), "A (Zen, family 23 model 1)"),
        (x86("AuthenticAMD", 26, 0x02, "A"), "A (Zen 5, family 26 model 2)"),
        (x86("AuthenticAMD", 99, 1, "AMD New"), "AMD New (family 99 model 1)"),
        (x86("HygonGenuine", 24, 1, "Hygon C86"), "Hygon C86 (Dhyana, family 24 model 1)"),
        (
            x86("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Processor @ 2.1GHz"),
            "Intel(R) Xeon(R) Processor @ 2.1GHz (Sapphire Rapids, family 6 model 143)",
        ),
        (x86("GenuineIntel", 6, 85, "I", 4), "I (Skylake, family 6 model 85)"),
        (x86("GenuineIntel", 6, 85, "I", 7), "I (Cascade Lake, family 6 model 85)"),
        (x86("GenuineIntel", 6, 85, "I", 11), "I (Cooper Lake, family 6 model 85)"),
        (x86("GenuineIntel", 6, 250, "I"), "I (family 6 model 250)"),
        (x86("GenuineIntel", 15, 4, "Pentium"), "Pentium (family 15 model 4)"),
        (arm((0x41, 0xD0C), (0x41, 0xD0C)), "Neoverse N1, Arm"),
        (arm((0x41, 0xD05), (0x41, 0xD0B)), "Cortex-A55, Arm and Cortex-A76, Arm"),
        (arm((0xC0, 0xAC3)), "Ampere-1, Ampere"),
        (arm((0x41, 0xFFF)), "Arm, part 0xfff"),
        (arm((0x99, 0x1)), "implementer 0x99, part 0x1"),
        (arm((0x41, 0xD08), name="Raspberry Pi 4"), "Raspberry Pi 4 (Cortex-A72, Arm)"),
        ("processor\t: 0\nhart\t\t: 2\nuarch\t\t: sifive,u74-mc\n", "sifive,u74-mc"),
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: x\n", ""),
        ("", ""),
        ("no colon here\n\n\n", ""),
    ],
)
def test_the_core_is_named(text: str, wanted: str):
    assert describe_processor(text) == wanted


def test_an_emulated_processor_is_not_the_one_beneath():
    text = x86("AuthenticAMD", 25, 1, "AMD EPYC")
    wanted = "AMD EPYC (Zen 3, family 25 model 1)"
    assert describe_processor(text, "aarch64") == f"emulated on {wanted}"
    assert describe_processor(text, "x86_64") == wanted
    assert describe_processor(arm((0x41, 0xD0C)), "aarch64") == "Neoverse N1, Arm"
