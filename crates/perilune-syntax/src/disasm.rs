//! A readable listing of bytecode, for people and for golden tests.
//!
//! One line per instruction: position, source line, mnemonic, fields, and after `;` what the fields mean
//! where that is not plain: constants, names of upvalues, jump targets. Nested functions follow their parent.

use crate::bytecode::{Format, Instr, NO_IC, Op, RK_CONST};
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

/// Writes an instruction's fields; returns the comment.
fn instruction(out: &mut String, proto: &Proto, pc: usize, instr: Instr) -> String {
    let Some(op) = instr.op() else {
        _ = write!(out, "{:#018x}", instr.0);
        return String::new();
    };
    let (a, b, c, d) = (instr.a(), instr.b(), instr.c(), instr.d());
    let k = |index: usize| constant(proto, index);
    let up = |index: usize| match proto.upvalues.get(index).and_then(|u| u.name.as_deref()) {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => "-".to_string(),
    };
    match op.format() {
        Format::Jump => {
            _ = write!(out, "{a} {b} {:+}", instr.sj());
            let target = pc as i64 + 1 + instr.sj() as i64;
            match op {
                Op::JumpEqK
                | Op::JumpNeK
                | Op::JumpLtK
                | Op::JumpNotLtK
                | Op::JumpLeK
                | Op::JumpNotLeK
                | Op::JumpGtK
                | Op::JumpNotGtK
                | Op::JumpGeK
                | Op::JumpNotGeK => format!("{} to {target}", k(b as usize)),
                _ => format!("to {target}"),
            }
        }
        Format::Wide => {
            _ = write!(out, "{a} {b} {}", instr.sj());
            if op == Op::LoadK { k(instr.bx() as usize) } else { String::new() }
        }
        Format::Abcd => {
            // The constant-or-register field shows as k or r, the cache field as #.
            let rk = if c & RK_CONST != 0 { format!("k{}", c & !RK_CONST) } else { format!("r{c}") };
            let value = if c & RK_CONST != 0 { k((c & !RK_CONST) as usize) } else { String::new() };
            let cache = if d == NO_IC { "#-".to_string() } else { format!("#{d}") };
            let (fields, comment) = match op {
                Op::GetTabUp => {
                    (format!("{a} {b} {c} {cache}"), format!("{} {}", up(b as usize), k(c as usize)))
                }
                Op::SetTabUp => {
                    (format!("{a} {b} {rk} {cache}"), format!("{} {} {value}", up(a as usize), k(b as usize)))
                }
                Op::GetField | Op::SelfCall => (format!("{a} {b} {c} {cache}"), k(c as usize)),
                Op::SetField => (format!("{a} {b} {rk} {cache}"), format!("{} {value}", k(b as usize))),
                Op::SetIndex | Op::SetInt => (format!("{a} {b} {rk}"), value),
                Op::SetSlot => (format!("{a} {b} {rk} {cache}"), value),
                Op::NewTable => (format!("{a} {b} {c} {cache}"), String::new()),
                Op::GetUpval | Op::SetUpval => (format!("{a} {b}"), up(b as usize)),
                Op::AddK
                | Op::SubK
                | Op::MulK
                | Op::DivK
                | Op::ModK
                | Op::PowK
                | Op::IDivK
                | Op::BAndK
                | Op::BOrK
                | Op::BXorK => (format!("{a} {b} {c} {d}"), k(c as usize)),
                Op::AddI => (format!("{a} {b} {} {d}", c as i16), String::new()),
                _ => (format!("{a} {b} {c} {d}"), String::new()),
            };
            out.push_str(&fields);
            comment.trim_end().to_string()
        }
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
