//! The names of the operating system's users.
//!
//! They may come from a directory service, which only the C library asks (nsswitch.conf(5)).

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use rustix::process::{Uid, geteuid};

/// An entry takes a few hundred bytes; no user's takes more than this.
const ENTRY_LEN_MAX: usize = 1 << 20;

/// The name of the user as whom this process runs.
pub fn own_name() -> Option<String> {
    name(geteuid())
}

/// The name of a user, if it has one that is UTF-8.
#[allow(unsafe_code, reason = "only the C library knows all users")]
pub fn name(user: Uid) -> Option<String> {
    let mut buffer = vec![0; 1 << 10];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = null_mut();
        // SAFETY: the call writes to the entry and, within its length, to the buffer, which both
        // live until the name is copied.
        let failed = unsafe {
            libc::getpwuid_r(
                user.as_raw(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &mut found,
            )
        };
        match failed {
            0 if found.is_null() => return None,
            0 => {
                // SAFETY: `found` points to the entry that the call has filled, whose name is a
                // string in the buffer.
                let name = unsafe { CStr::from_ptr((*found).pw_name) };
                return name.to_str().ok().map(str::to_owned);
            }
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < ENTRY_LEN_MAX => buffer.resize(2 * buffer.len(), 0),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn users_have_the_names_that_id_prints() {
        assert_eq!(name(Uid::ROOT).as_deref(), Some("root"));
        let id = Command::new("id").arg("-un").output().expect("id runs");
        let printed = String::from_utf8(id.stdout).expect("UTF-8");
        assert_eq!(own_name().as_deref(), Some(printed.trim_end()));
        assert_eq!(name(Uid::from_raw(u32::MAX - 7)), None);
    }
}
