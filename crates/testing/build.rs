//! Has cargo say where the target directory is: its output directory lies there.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
