//! A readable listing of bytecode, for people and for golden tests.
//!
//! One line per instruction: position, source line, mnemonic, fields, and after `;` what the fields mean
//! where that is not plain: constants, names of upvalues, jump targets. Nested functions follow their parent.

use crate::bytecode::{Instr, NO_IC, Op, RK_CONST};
use crate::operands::{Field, Kind};
use crate::proto::{Constant, Proto};
use std::fmt::Write;

/// The listing of a prototype and all prototypes inside it.
pub fn disassemble(proto: &Proto) -> String {
    let mut out = String::new();
    // A stack of our own: hostile binary chunks may nest to their limit.
    let mut pending = vec![proto];
    while let Some(proto) = pending.pop() {
        if !out.is_empty() {
            out.push('\n');
        }
        function(&mut out, proto);
        pending.extend(proto.protos.iter().rev().map(|p| &**p));
    }
    out
}

fn function(out: &mut String, proto: &Proto) {
    let what = if proto.line_defined == 0 { "main" } else { "function" };
    let dots = if proto.is_vararg { "+" } else { "" };
    _ = writeln!(
        out,
        "{what} <{}:{},{}> {}{dots} params, {} registers, {} upvalues, {} caches",
        String::from_utf8_lossy(&crate::error::chunk_id(&proto.source)),
        proto.line_defined,
        proto.last_line_defined,
        proto.num_params,
        proto.max_stack,
        proto.upvalues.len(),
        proto.ic_count,
    );
    for (pc, &instr) in proto.code.iter().enumerate() {
        let line = proto.line_at(pc).map_or("-".to_string(), |line| line.to_string());
        _ = write!(out, "{pc:4} [{line}]\t{:<12}", instr.op().map_or("?", Op::name));
        let comment = instruction(out, proto, pc, instr);
        if comment.is_empty() {
            out.push('\n');
        } else {
            _ = writeln!(out, "\t; {comment}");
        }
    }
    for (index, template) in proto.templates.iter().enumerate() {
        let names: Vec<String> = template.iter().map(|&k| constant(proto, k as usize)).collect();
        _ = writeln!(out, "  template {index}: {}", names.join(" "));
    }
    for (index, upvalue) in proto.upvalues.iter().enumerate() {
        let name = upvalue.name.as_deref().map_or("-".into(), String::from_utf8_lossy);
        let from = if upvalue.in_stack { "register" } else { "upvalue" };
        _ = writeln!(out, "  upvalue {index}: {name} {from} {} {:?}", upvalue.index, upvalue.kind);
    }
    for local in &proto.locals {
        let name = String::from_utf8_lossy(&local.name);
        _ = writeln!(
            out,
            "  local {name}: register {}, {}..{}",
            local.register, local.start_pc, local.end_pc
        );
    }
}

/// Writes an instruction's fields, each as what it is first of all; returns the comment.
fn instruction(out: &mut String, proto: &Proto, pc: usize, instr: Instr) -> String {
    if instr.op().is_none() {
        _ = write!(out, "{:#018x}", instr.0);
        return String::new();
    }
    let mut comment = Vec::new();
    let mut last = None;
    for (n, operand) in instr.operands().iter().enumerate() {
        if last == Some(operand.field) {
            continue;
        }
        last = Some(operand.field);
        let value = operand.field.of(instr);
        let space = if n == 0 { "" } else { " " };
        let is_constant = value as u16 & RK_CONST != 0;
        _ = match (operand.kind, operand.field) {
            (Kind::Forward | Kind::Backward, _) => write!(out, "{space}{:+}", value as i32),
            (Kind::Signed, Field::Sj) => write!(out, "{space}{}", value as i32),
            (Kind::Signed, _) => write!(out, "{space}{}", value as i16),
            (Kind::RK, _) if is_constant => write!(out, "{space}k{}", value & !(RK_CONST as u32)),
            (Kind::RK, _) => write!(out, "{space}r{value}"),
            (Kind::Cache, _) if value == NO_IC as u32 => write!(out, "{space}#-"),
            (Kind::Cache, _) => write!(out, "{space}#{value}"),
            _ => write!(out, "{space}{value}"),
        };
        match operand.kind {
            Kind::Constant | Kind::Name | Kind::Number => comment.push(constant(proto, value as usize)),
            Kind::RK if is_constant => comment.push(constant(proto, (value as u16 & !RK_CONST) as usize)),
            Kind::Upvalue | Kind::SetUpvalue => comment.push(upvalue(proto, value as usize)),
            Kind::Forward | Kind::Backward => {
                comment.push(format!("to {}", pc as i64 + 1 + value as i32 as i64))
            }
            _ => {}
        }
    }
    comment.join(" ")
}

fn upvalue(proto: &Proto, index: usize) -> String {
    match proto.upvalues.get(index).and_then(|u| u.name.as_deref()) {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => "-".to_string(),
    }
}

fn constant(proto: &Proto, index: usize) -> String {
    match proto.constants.get(index) {
        None => "?".to_string(),
        Some(Constant::Nil) => "nil".to_string(),
        Some(Constant::Boolean(b)) => b.to_string(),
        Some(Constant::Integer(n)) => n.to_string(),
        Some(Constant::Float(n)) => format!("{n:?}"),
        Some(Constant::String(s)) => {
            let shown = String::from_utf8_lossy(s);
            let cut: String = shown.chars().take(40).collect();
            let dots = if cut.len() < shown.len() { "..." } else { "" };
            format!("{cut:?}{dots}")
        }
    }
}
