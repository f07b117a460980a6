"""Handler for modules."""

from __future__ import annotations

from loomir.ir.module import IRModule
from loomir.ir.visit import Step
from loomir.relax.expr import Function
from loomir.script.printer.doc import ClassDoc, DictDoc, ExprDoc, ExprStmtDoc, IdDoc, ListDoc
from loomir.script.printer.docsifier import Docsifier, FunctionName, stmt_handler
from loomir.script.printer.names import Names
from loomir.script.printer.relax.func import relax_function_doc
from loomir.script.printer.relax.info import docs_of
from loomir.script.printer.tir.func import function_doc
from loomir.script.printer.values import I, dict_doc, text
from loomir.tir.function import PrimFunc

__all__: list[str] = []

_NAME = "Module"


@stmt_handler("default", IRModule)
def _module(d: Docsifier, node: IRModule, tail: bool) -> Step[None]:
    members = Names()
    members.reserve(_NAME)
    names = [members.take(var.name_hint) for var in node.functions]
    d.functions = {
        var.name_hint: FunctionName(IdDoc("cls").attr(name), func)
        for name, (var, func) in zip(names, node.functions.items(), strict=True)
    }
    with d.frame("module") as frame:
        if node.attrs:
            d.emit(ExprStmtDoc(I.attr("module_attrs").call((yield dict_doc(d, node.attrs)))))
        if node.global_info:
            d.emit(ExprStmtDoc(I.attr("module_global_infos").call((yield _global_info(d, node)))))
        for name, (var, func) in zip(names, node.functions.items(), strict=True):
            # Names in one function do not limit those in another.
            d.names = Names()
            d.names.reserve(_NAME)
            if isinstance(func, PrimFunc):
                d.emit((yield function_doc(d, func, name, var.name_hint)))
            elif isinstance(func, Function):
                d.emit((yield relax_function_doc(d, func, name, var.name_hint)))
            else:
                yield d.stmt(func, False)
    d.emit(ClassDoc(_NAME, frame.statements, (I.attr("ir_module"),)))


def _global_info(d: Docsifier, node: IRModule) -> Step[ExprDoc]:
    items: list[tuple[ExprDoc, ExprDoc]] = []
    for name, devices in node.global_info.items():
        items.append((text(name), ListDoc((yield docs_of(d, devices)))))
    return DictDoc(tuple(items))
