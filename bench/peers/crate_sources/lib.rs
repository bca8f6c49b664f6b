//! Owns: nothing. Cargo wants a target; Cargo.toml says what this package is for.
