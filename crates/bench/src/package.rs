//! How a program that is missing comes to a machine.

/// The packages that the script installs: those of the contenders and of the ways to archive, but
/// for what every system has, and the SSH server that some of the latter need.
const BY_SCRIPT: [&str; 13] = [
    "gzip",
    "pigz",
    "bzip2",
    "lbzip2",
    "xz-utils",
    "7zip",
    "lrzip",
    "lz4",
    "zstd",
    "brotli",
    "openssh-client",
    "openssh-server",
    "rsync",
];

/// The package, and what installs it for those who have the source.
pub(crate) fn how_to_install(package: &str) -> String {
    match package {
        package if package.starts_with("postgresql") => format!(
            "package {package}; or name what scripts/fetch-postgres in walzip's source fetches \
             with --pg-bin"
        ),
        package if BY_SCRIPT.contains(&package) => {
            format!("package {package}; scripts/bench-tools in walzip's source installs it")
        }
        package => format!("package {package}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::contender::CONTENDERS;
    use crate::segments::METHODS;

    #[test]
    fn the_packages_of_all_tables_are_known() {
        let contenders = CONTENDERS.iter().filter(|contender| !contender.is_walzip());
        let methods = METHODS.iter().filter(|method| !method.is_walzip());
        let named = contenders
            .map(|contender| contender.package)
            .chain(methods.map(|method| method.package))
            .chain(["openssh-server"])
            .filter(|package| *package != "coreutils");
        assert_eq!(BTreeSet::from(BY_SCRIPT), named.collect());
    }

    #[test]
    fn who_has_the_source_is_told_of_the_script() {
        let script = "scripts/bench-tools in walzip's source";
        for package in ["lrzip", "rsync", "openssh-server"] {
            assert!(how_to_install(package).contains(script), "{package}");
        }
        assert_eq!(how_to_install("coreutils"), "package coreutils");
        let server = how_to_install("postgresql");
        assert!(server.contains("scripts/fetch-postgres") && server.contains("--pg-bin"));
    }
}
