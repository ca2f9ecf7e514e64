//! A Debian package: an `ar` archive of a version, a tar archive that describes and one that is installed.

use super::{Error, File, archive};

/// What the description says that the files do not.
pub struct Package<'a> {
    /// Of the command.
    pub version: &'a str,
    /// The C library that it needs.
    pub glibc: Option<String>,
    /// Whether it needs the unwinder as a shared library.
    pub unwinder: bool,
    /// Of all files.
    pub age: u64,
}

impl Package<'_> {
    /// The package, with `files` below `/usr`.
    pub fn bytes(&self, files: &[File]) -> Result<Vec<u8>, Error> {
        let files: Vec<File> = files.iter().map(place).collect::<Result<_, _>>()?;
        let control =
            File { path: "control".to_owned(), mode: 0o644, bytes: self.control(&files).into_bytes() };
        let mut ar = ar::Builder::new(Vec::new());
        for (name, bytes) in [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.gz", archive::tar_gz("", &[control], self.age)?),
            ("data.tar.gz", archive::tar_gz("", &files, self.age)?),
        ] {
            let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
            header.set_mtime(self.age);
            header.set_mode(0o100_644);
            ar.append(&header, bytes.as_slice())?;
        }
        Ok(ar.into_inner()?)
    }

    fn control(&self, files: &[File]) -> String {
        let kib: usize = files.iter().map(|f| f.bytes.len().div_ceil(1024)).sum();
        let libc = self.glibc.as_ref().map_or("libc6".to_owned(), |v| format!("libc6 (>= {v})"));
        let unwinder = if self.unwinder { ", libgcc-s1" } else { "" };
        format!(
            "Package: perilune\nVersion: {}\nArchitecture: amd64\nMaintainer: The Perilune maintainers \
             <maintainers@users.noreply.github.com>\nInstalled-Size: {kib}\nDepends: {libc}{unwinder}\n\
             Section: \
             interpreters\nPriority: optional\nHomepage: https://github.com/perilune/perilune\n\
             Description: Lua 5.4 on \
             all cores\n Runs Lua 5.4 programs, as lua does, and on all cores: domains with heaps of their \
             own,\n task \
             pools, channels, shared data. Profiles and traces what runs.\n",
            self.version
        )
    }
}

/// Where Debian has a file: manual pages are compressed, the licence is called `copyright`, zsh's functions
/// have a folder of packages'.
fn place(file: &File) -> Result<File, Error> {
    let mut file = file.clone();
    if file.path.starts_with("share/man/") {
        file.bytes = archive::gz(&file.bytes)?;
        file.path.push_str(".gz");
    }
    let path = match file.path.as_str() {
        "share/doc/perilune/LICENSE" => "share/doc/perilune/copyright".to_owned(),
        path => path.replace("zsh/site-functions", "zsh/vendor-completions"),
    };
    file.path = format!("usr/{path}");
    Ok(file)
}
