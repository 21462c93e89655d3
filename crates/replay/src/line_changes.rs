//! How the line pointers of a page of a table change.

use crate::page::{LinePointer, Page, PageBytes, State};

/// How line pointers change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LineChanges {
    /// Numbers that lead to others from now on.
    pub redirected: Vec<(u16, u16)>,
    /// Numbers whose items are gone, and that indexes still refer to.
    pub dead: Vec<u16>,
    /// Numbers that are free.
    pub unused: Vec<u16>,
}

impl LineChanges {
    /// The changes that make one page's line pointers those of another.
    pub fn between(before: &PageBytes, after: &PageBytes) -> Option<LineChanges> {
        let mut changes = LineChanges::default();
        for number in 1..=before.items() {
            let old = before.line_pointer(number)?;
            let new = after.line_pointer(number).unwrap_or(LinePointer::UNUSED);
            match new.state {
                State::Redirect if old != new => changes.redirected.push((number, new.offset)),
                State::Dead if old.state != State::Dead => changes.dead.push(number),
                State::Unused if old.state != State::Unused => changes.unused.push(number),
                _ => {}
            }
        }
        Some(changes)
    }

    /// Changes the line pointers of a page.
    pub fn apply(&self, page: &mut PageBytes) -> Option<()> {
        for &(from, to) in &self.redirected {
            page.set_line_pointer(from, LinePointer::redirect(to))?;
        }
        for &number in &self.dead {
            page.set_line_pointer(number, LinePointer::DEAD)?;
        }
        for &number in &self.unused {
            page.set_line_pointer(number, LinePointer::UNUSED)?;
        }
        Some(())
    }
}
