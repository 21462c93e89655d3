//! The reports in a real browser: headless Chromium opens them, clicks, hovers and prints.
//!
//! A browser that cannot be had is a failure; `scripts/fetch-browser` brings one.

mod comparison;
mod devtools;
mod pages;
mod picture;
mod tables;
mod widths;
