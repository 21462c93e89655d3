//! Fragments the machine's free memory, runs a command while it is, and says what the command took:
//!
//! ```text
//! cargo run --release -p walzip --example fragment_memory -- 2000 20 walzip compress -1 -c SEGMENT
//! ```
//!
//! Takes all memory but so many megabytes, gives every other page of 4 KiB back, and takes what is
//! left of whole huge pages: what is free then is no two pages long, as on a server that has read
//! and written files for weeks. What is printed of each run is its processor time, its page faults
//! and what the kernel did for huge pages. With `0` megabytes, nothing is fragmented.
//!
//! For a machine that nobody else needs meanwhile.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "memory is taken and given back page by page")]
mod linux {
    use std::fs::{File, read_to_string};
    use std::process::{Command, Stdio, exit};
    use std::ptr::null_mut;

    const PAGE: usize = 4096;
    const HUGE_PAGE: usize = 2 << 20;

    pub fn main() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [left, runs, program, arguments @ ..] = &arguments[..] else {
            eprintln!("usage: fragment_memory MEGABYTES_LEFT RUNS PROGRAM ARGUMENTS...");
            exit(2);
        };
        let left: usize = left.parse().expect("megabytes");
        if left > 0 {
            let len = (megabytes("MemAvailable:") - left) << 20;
            fragment(take(len, libc::MADV_NOHUGEPAGE), len);
        }
        let mut times: Vec<[f64; 2]> = Vec::new();
        for _ in 0..runs.parse().expect("runs") {
            if left > 0 {
                // What a run has made of small pages, and freed.
                take_huge_pages();
            }
            times.push(run(program, arguments));
        }
        let median = |which: usize| {
            let mut times: Vec<f64> = times.iter().map(|time| time[which]).collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        println!("median: user {:.3} s, system {:.3} s", median(0), median(1));
    }

    /// Address space with this advice.
    fn reserve(len: usize, advice: i32) -> *mut u8 {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping, which nobody else knows.
        unsafe {
            let start = libc::mmap(null_mut(), len, access, kind, -1, 0);
            assert_ne!(start, libc::MAP_FAILED, "no address space");
            libc::madvise(start, len, advice);
            start.cast()
        }
    }

    fn take(len: usize, advice: i32) -> *mut u8 {
        let start = reserve(len, advice);
        for at in (0..len).step_by(PAGE) {
            // SAFETY: within the mapping.
            unsafe { start.add(at).write(1) };
        }
        start
    }

    /// Gives every other page back.
    fn fragment(start: *mut u8, len: usize) {
        for at in (0..len).step_by(2 * PAGE) {
            // SAFETY: within the mapping, which only this program uses.
            unsafe { libc::madvise(start.add(at).cast(), PAGE, libc::MADV_DONTNEED) };
        }
    }

    /// Takes the huge pages that are still there in one piece.
    fn take_huge_pages() {
        const MOST: usize = 8 << 30;
        // Some are kept for emergencies, and given to nobody.
        const FEW: usize = 40;
        let start = reserve(MOST, libc::MADV_HUGEPAGE);
        let start = start.wrapping_add(start.align_offset(HUGE_PAGE));
        for at in (0..MOST - HUGE_PAGE).step_by(HUGE_PAGE) {
            if free_huge_pages() < FEW {
                return;
            }
            // SAFETY: within the mapping.
            unsafe { start.add(at).write(1) };
        }
    }

    /// Blocks of 2 MiB or more, in huge pages.
    fn free_huge_pages() -> usize {
        let blocks = read_to_string("/proc/buddyinfo").expect("/proc/buddyinfo");
        let of_zone = |line: &str| -> usize {
            let counts = line.split_whitespace().skip(4);
            let counts = counts.map(|count| count.parse::<usize>().expect("a count"));
            counts
                .skip(9)
                .enumerate()
                .map(|(order, n)| n << order)
                .sum()
        };
        blocks.lines().map(of_zone).sum()
    }

    fn megabytes(name: &str) -> usize {
        let lines = read_to_string("/proc/meminfo").expect("/proc/meminfo");
        let line = lines.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect(name).parse::<usize>().expect("a number") >> 10
    }

    fn counters() -> Vec<(String, u64)> {
        const OF_INTEREST: [&str; 5] = [
            "thp_fault_alloc",
            "thp_fault_fallback",
            "compact_stall",
            "compact_migrate_scanned",
            "allocstall_movable",
        ];
        let lines = read_to_string("/proc/vmstat").expect("/proc/vmstat");
        let pairs = lines.lines().filter_map(|line| line.split_once(' '));
        pairs
            .filter(|(name, _)| OF_INTEREST.contains(name))
            .map(|(name, count)| (name.to_owned(), count.parse().expect("a count")))
            .collect()
    }

    fn children() -> libc::rusage {
        // SAFETY: a plain structure that the call fills.
        unsafe {
            let mut used = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_CHILDREN, &mut used);
            used
        }
    }

    /// User and system time of a run.
    fn run(program: &str, arguments: &[String]) -> [f64; 2] {
        let (free, huge_pages) = (megabytes("MemFree:"), free_huge_pages());
        print!("free {free} MB, huge pages {huge_pages}: ");
        let (before, counted) = (children(), counters());
        let null = File::options().write(true).open("/dev/null");
        let mut command = Command::new(program);
        command.args(arguments);
        command.stdout(Stdio::from(null.expect("/dev/null")));
        let status = command.status().expect("the program starts");
        assert!(status.success(), "{status}");
        let after = children();
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        let user = seconds(after.ru_utime) - seconds(before.ru_utime);
        let system = seconds(after.ru_stime) - seconds(before.ru_stime);
        let faults = after.ru_minflt - before.ru_minflt;
        let changed = counters().into_iter().zip(counted);
        let changed = changed.filter(|((_, now), (_, then))| now > then);
        let changed: Vec<String> = changed
            .map(|((name, now), (_, then))| format!("{name} {}", now - then))
            .collect();
        let changed = changed.join(", ");
        println!("user {user:.3} s, system {system:.3} s, {faults} faults; {changed}");
        [user, system]
    }
}
