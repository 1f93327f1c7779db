//! A description of the machine, and its free memory.

use std::{fs, path::Path};

/// Processor, cores that this process may use, and operating system.
pub fn describe() -> String {
    let cores = match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => "1 core".to_owned(),
        several => format!("{several} cores"),
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unnamed processor".into());
    format!(
        "{processor}, {cores}, {} {}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// Bytes of the process that are in memory; `None` where the system does not report it.
pub fn resident_memory() -> Option<u64> {
    in_status(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// A number of bytes in the status of a process, which Linux reports in units of 1,024 bytes.
fn in_status(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Memory still available to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// In bytes.
    pub bytes: u64,
    /// The rest of the sentence after the number of bytes, such as "are free".
    pub words: &'static str,
}

/// The smaller of the machine's free memory and what the control groups of the process have left; `None` where the
/// system does not report it.
pub fn free_memory() -> Option<FreeMemory> {
    free_memory_below(Path::new("/"))
}

/// The same for a system whose files are below `root`.
fn free_memory_below(root: &Path) -> Option<FreeMemory> {
    let machine = available(&root.join("proc/meminfo")).map(|bytes| FreeMemory {
        bytes,
        words: "are free",
    });
    let group = left_to_groups(root).map(|bytes| FreeMemory {
        bytes,
        words: "are left to its control group",
    });
    machine
        .into_iter()
        .chain(group)
        .min_by_key(|free| free.bytes)
}

/// `MemAvailable`, which Linux reports in units of 1,024 bytes.
fn available(meminfo: &Path) -> Option<u64> {
    in_status(&fs::read_to_string(meminfo).ok()?, "MemAvailable:")
}

/// What the process's control groups and their parents have left, in versions 1 and 2 of control groups.
fn left_to_groups(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let left = groups.lines().filter_map(|line| {
        // `number:controllers:path`
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/');
        let (mount, files) = match controllers {
            "" => ("sys/fs/cgroup", ["memory.max", "memory.current"]),
            some if some.split(',').any(|name| name == "memory") => (
                "sys/fs/cgroup/memory",
                ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            ),
            _ => return None,
        };
        // Inside a container the path may be the one seen from outside; the visible groups start at the mount.
        let mount = root.join(mount);
        let own = mount.join(path);
        let around = own
            .ancestors()
            .take_while(|group| group.starts_with(&mount));
        around.filter_map(|group| left_to(group, files)).min()
    });
    left.min()
}

/// What one control group has left. File cache that can be reclaimed counts as left.
fn left_to(group: &Path, [limit, used]: [&str; 2]) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let limit = number(limit)?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = ["inactive_file ", "total_inactive_file "];
    let files = stat
        .lines()
        .filter_map(|line| files.iter().find_map(|name| line.strip_prefix(name)))
        .filter_map(|number| number.trim().parse::<u64>().ok())
        .max();
    let used = number(used)?.saturating_sub(files.unwrap_or(0));
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn the_smaller_of_machine_and_control_group_bounds_memory() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(free_memory_below(root), None);
        write(
            root,
            &[(
                "proc/meminfo",
                "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n",
            )],
        );
        let free = |root: &Path| free_memory_below(root).unwrap();
        assert_eq!(free(root).bytes, 5000 * 1024);
        assert_eq!(free(root).words, "are free");

        // Version 2: a limit on the parent group; the process's own group has none.
        write(
            root,
            &[
                ("proc/self/cgroup", "0::/outer/inner\n"),
                ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
                ("sys/fs/cgroup/outer/inner/memory.current", "77\n"),
                ("sys/fs/cgroup/outer/memory.max", "3000000\n"),
                ("sys/fs/cgroup/outer/memory.current", "1500000\n"),
                (
                    "sys/fs/cgroup/outer/memory.stat",
                    "anon 1\ninactive_file 500000\n",
                ),
            ],
        );
        assert_eq!(free(root).bytes, 2_000_000);
        assert_eq!(free(root).words, "are left to its control group");

        // Version 1, in a container that does not see its own path.
        write(
            root,
            &[
                (
                    "proc/self/cgroup",
                    "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n",
                ),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n"),
                (
                    "sys/fs/cgroup/memory/memory.stat",
                    "total_inactive_file 100000\n",
                ),
            ],
        );
        assert_eq!(free(root).bytes, 700_000);
        // A group that has used more than its limit.
        write(
            root,
            &[("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000000\n")],
        );
        assert_eq!(free(root).bytes, 0);
    }
}
