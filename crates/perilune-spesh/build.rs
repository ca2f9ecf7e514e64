//! Sets `machine_code` where the feature of that name meets a system that it is written for, so that modules
//! ask one question.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(machine_code)");
    let target = |key: &str| std::env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let wanted = std::env::var_os("CARGO_FEATURE_MACHINE_CODE").is_some();
    if wanted && target("OS") == "linux" && target("ARCH") == "x86_64" {
        println!("cargo::rustc-cfg=machine_code");
    }
}
