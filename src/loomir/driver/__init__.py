"""The compiler's driver: the stages of compiling, and the executable that comes out of them."""

from loomir.driver.compilation import OnCompiled
from loomir.driver.compile_anew import compile_anew
from loomir.driver.program import Program, as_module
from loomir.driver.schedule_source import ScheduleSource
from loomir.driver.stages import choose_packing

__all__ = ["OnCompiled", "Program", "ScheduleSource", "as_module", "choose_packing", "compile_anew"]
