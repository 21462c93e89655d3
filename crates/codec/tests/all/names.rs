//! The name of the original in the header of its file.

use walzip_codec::{
    DecodeError, EncodeError, HEADER_LEN_MAX, Header, Level, decode, encode, name_file,
};

fn file() -> Vec<u8> {
    encode(b"1\t0/3000000\tno recovery target specified\n", Level::MIN).expect("encoded")
}

#[test]
fn a_name_is_read_and_changes_nothing_else() {
    let unnamed = Header::read(&file()).expect("a header");
    assert_eq!(unnamed.name, None);
    let longest = "0".repeat(64);
    for name in ["00000002.history", "a", &longest] {
        let mut named = file();
        named.extend(file());
        name_file(&mut named, name).expect("named");
        let header = Header::read(&named).expect("a header");
        assert_eq!(header.name.as_deref(), Some(name));
        assert_eq!(header.original_hash, unnamed.original_hash);
        assert_eq!(header.header_len, unnamed.header_len + name.len());
        assert!(header.header_len <= HEADER_LEN_MAX);
        let second = &named[header.member_len as usize..];
        assert_eq!(second, file(), "a further member stays as it is");
        assert_eq!(
            decode(&named).expect("decoded"),
            decode(&file()).expect("decoded").repeat(2)
        );
        // A second name takes the place of the first.
        name_file(&mut named, "b").expect("named");
        assert_eq!(
            Header::read(&named).expect("a header").name.as_deref(),
            Some("b")
        );
    }
}

#[test]
fn what_is_no_name_is_not_written() {
    let too_long = "0".repeat(65);
    for name in ["", ".history", "a/b", "a b", "\u{e4}", &too_long] {
        let mut unnamed = file();
        let refused = name_file(&mut unnamed, name);
        assert!(matches!(refused, Err(EncodeError::Name(refused)) if refused == name));
        assert_eq!(unnamed, file());
    }
}

#[test]
fn what_is_no_name_is_rejected() {
    let mut named = file();
    name_file(&mut named, "00000002.history").expect("named");
    let place = named
        .windows(8)
        .position(|bytes| bytes == b"00000002")
        .expect("the name");
    for byte in [b'/', 0, 0xFF, b'.'] {
        let mut other = named.clone();
        other[place] = byte;
        let checksum_place = Header::read(&named).expect("a header").header_len - 4;
        let checksum = crc32c::crc32c(&other[..checksum_place]);
        other[checksum_place..][..4].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(Header::read(&other), Err(DecodeError::Corrupt(_))));
    }
    // An earlier version has no name, and its files are not named.
    let golden = crate::compatibility::golden_files();
    let earlier = golden.into_iter().find(|(name, _)| name == "v1_foreign.wz");
    let mut earlier = earlier.expect("a golden file").1;
    assert_eq!(Header::read(&earlier).expect("a header").name, None);
    assert!(name_file(&mut earlier, "00000002.history").is_err());
}
