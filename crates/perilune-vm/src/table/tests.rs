//! Tables against a model.

use super::testing::bare_vm;
use crate::object::ArrayKind;
use crate::value::Value;

#[test]
fn array_kinds() {
    let vm = &mut bare_vm();
    let t = vm.new_table(0, 0).unwrap();
    for i in 1..=10 {
        vm.raw_set_int(t, i, Value::int(i * i)).unwrap();
    }
    assert_eq!((t.kind, vm.raw_len(t)), (ArrayKind::Int, 10));
    assert_eq!(vm.raw_get_int(t, 7).as_int(), Some(49));
    vm.raw_set_int(t, 3, Value::float(0.5)).unwrap();
    assert_eq!(t.kind, ArrayKind::General);
    assert_eq!(vm.raw_get_int(t, 3).as_float(), Some(0.5));
    assert_eq!(vm.raw_get_int(t, 10).as_int(), Some(100));
    vm.raw_set_int(t, 9, Value::NIL).unwrap();
    assert_eq!(vm.raw_len(t), 10);
    vm.raw_set_int(t, 10, Value::NIL).unwrap();
    assert_eq!(vm.raw_len(t), 8);
    assert!(vm.raw_get_int(t, 9).is_nil());
}
