//! The tree's shape: how operators bind, what names mean, which line each node is on.

use perilune_syntax::ast::*;
use perilune_syntax::parse;

fn chunk(source: &str) -> Chunk {
    parse(source.as_bytes(), b"=s").unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn text(chunk: &Chunk, id: StrId) -> String {
    String::from_utf8_lossy(&chunk.strings[id.index()]).into_owned()
}

/// An expression in prefix form. A local is its name and number, a global its name alone.
fn show(chunk: &Chunk, id: ExprId) -> String {
    let list = |list: &ListId| {
        chunk.list(*list).iter().map(|&id| " ".to_owned() + &show(chunk, id)).collect::<String>()
    };
    match &chunk.exprs[id.index()] {
        Expr::Nil => "nil".into(),
        Expr::True => "true".into(),
        Expr::False => "false".into(),
        Expr::Vararg => "...".into(),
        Expr::Integer(value) => value.to_string(),
        Expr::Float(value) => format!("{value:?}"),
        Expr::String(id) => format!("{:?}", text(chunk, *id)),
        Expr::Function(id) => format!("function{}", id.0),
        Expr::Local(id) => format!("{}#{}", text(chunk, chunk.locals[*id].name), id.0),
        Expr::Global { env: LocalId(0), name } => text(chunk, *name),
        Expr::Global { env, name } => format!("(index _ENV#{} {:?})", env.0, text(chunk, *name)),
        Expr::Index { obj, key } => format!("(index {} {})", show(chunk, *obj), show(chunk, *key)),
        Expr::Dot { obj, name } => format!("(index {} {:?})", show(chunk, *obj), text(chunk, *name)),
        Expr::Call { func, args } => format!("(call {}{})", show(chunk, *func), list(args)),
        Expr::MethodCall { obj, name, args } => {
            format!("(method {} {}{})", show(chunk, *obj), text(chunk, *name), list(args))
        }
        Expr::Binary { op, lhs, rhs } => format!("({op:?} {} {})", show(chunk, *lhs), show(chunk, *rhs)),
        Expr::And { lhs, rhs } => format!("(and {} {})", show(chunk, *lhs), show(chunk, *rhs)),
        Expr::Or { lhs, rhs } => format!("(or {} {})", show(chunk, *lhs), show(chunk, *rhs)),
        Expr::Unary { op, operand } => format!("({op:?} {})", show(chunk, *operand)),
        Expr::Paren(inner) => format!("(paren {})", show(chunk, *inner)),
        Expr::Table { fields } => {
            let fields = chunk.table_fields(*fields).iter().map(|field| match field {
                Field::Item(value) => format!(" {}", show(chunk, *value)),
                Field::Pair { key, value } => format!(" {}={}", show(chunk, *key), show(chunk, *value)),
            });
            format!("(table{})", fields.collect::<String>())
        }
    }
}

/// The values of the `return` that ends a chunk.
fn returned(source: &str) -> String {
    let chunk = chunk(source);
    match &chunk.block(chunk.functions[0].body).last().expect(source).kind {
        StatKind::Return(values) => {
            chunk.list(*values).iter().map(|&id| show(&chunk, id)).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn operators_bind_as_the_manual_says() {
    let cases = [
        (
            "a or b and c < d | e ~ f & g << h .. i + j * -k ^ l",
            "(or a (and b (Lt c (BOr d (BXor e (BAnd f (Shl g (Concat h (Add i (Mul j (Neg (Pow k \
             l))))))))))))",
        ),
        ("a - b - c", "(Sub (Sub a b) c)"),
        ("a .. b .. c", "(Concat a (Concat b c))"),
        ("a ^ b ^ c", "(Pow a (Pow b c))"),
        ("2 ^ -3 ^ 4", "(Pow 2 (Neg (Pow 3 4)))"),
        ("-a ^ 2", "(Neg (Pow a 2))"),
        ("not a == b", "(Eq (Not a) b)"),
        ("#a .. ~b", "(Concat (Len a) (BNot b))"),
        ("a * b / c // d % e", "(Mod (IDiv (Div (Mul a b) c) d) e)"),
        ("a < b == c >= d ~= e", "(Ne (Ge (Eq (Lt a b) c) d) e)"),
        ("(a + b) * c", "(Mul (Add a b) c)"),
        ("(f()), (...), (a), (a.b), (1)", "(paren (call f)) (paren ...) (paren a) (paren (index a \"b\")) 1"),
        ("a.b[c]:d(e, 1){f}'s'", "(call (call (method (index (index a \"b\") c) d e 1) (table f)) \"s\")"),
        ("{a, b = 1, [c] = d; [[e]], f, }", "(table a \"b\"=1 c=d \"e\" f)"),
        ("'\\65\\x42\\u{43}\\z  \\n\\\\', \"'\", [==[\n]]]==]", "\"ABC\\n\\\\\" \"'\" \"]]\""),
        ("0x10, 1e1, 9223372036854775808, 0xA.8p0", "16 10.0 9.223372036854776e18 10.5"),
    ];
    for (source, expected) in cases {
        assert_eq!(returned(&format!("return {source}")), expected, "{source}");
    }
}

#[test]
fn names_mean_the_innermost_variable() {
    let cases = [
        ("local a; local a; return a, b", "a#2 b"),
        ("local a = 1; do local a end return a", "a#1"),
        ("local a; for a = a, a do local b = a end return a, b", "a#1 b"),
        ("local a; repeat local b; local a until a return a", "a#1"),
        ("local function f() end return f", "f#1"),
        ("local _ENV = {}; return x", "(index _ENV#1 \"x\")"),
        ("return _ENV", "_ENV#0"),
    ];
    for (source, expected) in cases {
        assert_eq!(returned(source), expected, "{source}");
    }
    let chunk = chunk("local a = a; repeat local b; local c until b == c; local f = f");
    let values = |stat: &Stat| match &stat.kind {
        StatKind::Local { values, .. } => show(&chunk, chunk.list(*values)[0]),
        StatKind::Repeat { cond, .. } => show(&chunk, *cond),
        other => panic!("{other:?}"),
    };
    let shown: Vec<String> = chunk.block(chunk.functions[0].body).iter().map(values).collect();
    assert_eq!(shown, ["a", "(Eq b#2 c#3)", "f"]);
}

#[test]
fn variables_know_what_happens_to_them() {
    let chunk = chunk(
        "local plain, captured, assigned, both, inner <const> = 1
         local function f(param) captured = captured; local g <close> = function() return both, param end end
         assigned, both = 1, 2
         function plain() end",
    );
    let facts: Vec<String> = chunk
        .locals
        .iter()
        .skip(1)
        .map(|local| {
            let flag = |set, name| if set { name } else { "" };
            let name = text(&chunk, local.name);
            let (captured, assigned) = (flag(local.captured, " captured"), flag(local.assigned, " assigned"));
            format!("{name} {:?} {} {}{captured}{assigned}", local.attrib, local.function.0, local.line)
        })
        .collect();
    let expected = [
        "plain Regular 0 1 assigned",
        "captured Regular 0 1 captured assigned",
        "assigned Regular 0 1 assigned",
        "both Regular 0 1 captured assigned",
        "inner Const 0 1",
        "f Regular 0 2",
        "param Regular 1 2 captured",
        "g Close 1 2",
    ];
    assert_eq!(facts, expected);
}

#[test]
fn nodes_are_on_the_lines_where_puc_reports_errors() {
    let source = "return a\n.b\n[\nc\n]\n(\nd\n)\n:e\n'f'\n+\n-\n{\n}\n..\nfunction\n(\n)\nend";
    let chunk = chunk(source);
    let line = |wanted: &str| {
        let found = (0..chunk.exprs.len()).find(|&i| show(&chunk, ExprId(i as u32)) == wanted);
        chunk.lines[found.unwrap_or_else(|| panic!("{wanted}"))]
    };
    for (expr, expected) in [
        ("a", 1),
        ("(index a \"b\")", 2),
        ("c", 4),
        ("(index (index a \"b\") c)", 5),
        ("(call (index (index a \"b\") c) d)", 6),
        ("(method (call (index (index a \"b\") c) d) e \"f\")", 10),
        ("(Add (method (call (index (index a \"b\") c) d) e \"f\") (Neg (table)))", 11),
        ("(Neg (table))", 12),
        ("(table)", 14),
        ("function1", 19),
    ] {
        assert_eq!(line(expr), expected, "{expr}");
    }
    let function = &chunk.functions[1];
    assert_eq!((function.line, function.end_line), (17, 19));
}

#[test]
fn statements_are_on_the_lines_where_puc_reports_errors() {
    let chunk = chunk("\nfor k in\nf()\ndo\nend\nlocal x\n= 1\n\n\n");
    let lines: Vec<u32> = chunk.block(chunk.functions[0].body).iter().map(|stat| stat.line).collect();
    assert_eq!(lines, [3, 6]);
    assert_eq!(chunk.functions[0].end_line, 7);
}
