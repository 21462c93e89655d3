#!/usr/bin/env python3
"""Tests of the second decoder, with the standard library's unittest.

    python3 contrib/decoder/test_decoder.py                the golden files, and damage
    WALZIP=target/release/walzip PG_BIN=/usr/lib/postgresql/15/bin \\
        python3 contrib/decoder/test_decoder.py            and a repository of a real server

The second form makes a cluster, archives it, takes full, differential and incremental backups, and
compares what the decoder makes of the repository with what `walzip restore` and `walzip archive-get`
make of it. As root it runs the server as the user postgres, or nobody.
"""

import copy
import filecmp
import io
import json
import os
import pwd
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import walzip_decode as decoder  # noqa: E402
from highwayhash import highwayhash64  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
GOLDEN = os.path.join(ROOT, "crates", "codec", "tests", "golden")
GOLDEN_REPOSITORY = os.path.join(ROOT, "crates", "repo", "tests", "golden", "0.1.0-without-marks")
SCRIPT = os.path.join(HERE, "walzip_decode.py")


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def run_decoder(*arguments):
    """The exit code, and what was said on standard error."""
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    return done.returncode, done.stderr


class Parts(unittest.TestCase):
    """What the documents give examples of, and what has a plain Python version and another one."""

    def test_blake3_in_plain_python_is_that_of_the_module(self):
        known = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        self.assertEqual(decoder.blake3_slow(b"").hex(), known)
        for length in (1, 63, 64, 65, 1023, 1024, 1025, 2048, 3073, 9000):
            data = bytes(n * 7 & 255 for n in range(length))
            self.assertEqual(decoder.blake3_slow(data), decoder.blake3(data), length)
            key = bytes(range(32))
            self.assertEqual(decoder.blake3_slow(data, key), decoder.blake3(data, key), length)

    def test_highwayhash_is_that_of_its_authors(self):
        # kExpected64 in c/highwayhash_test.c of their repository.
        key = bytes(range(32))
        for length, known in enumerate((0x907A56DE22C26E53, 0x7EAB43AAC7CDDD78, 0xB8D0569AB0B53D62)):
            self.assertEqual(highwayhash64(bytes(range(length)), key), known.to_bytes(8, "little"))

    def test_the_foreign_member_of_the_document_is_abc(self):
        member = bytes.fromhex(
            "57414C5A 070000 6437B3AC3846513 3FFB63B75273A8DB548C558465D79DB03FD359C6CD5BD9D85 00030A 7A7F181C"
            "000303 B73F4B36 616263".replace(" ", ""))
        self.assertEqual(decoder.decode_file(member), (b"abc", ""))

    def test_the_layouts_of_the_document_are_four_integers(self):
        rows = bytes.fromhex("0100020002010000AA")
        for layout, coded in enumerate(
                ("0100020002010000AA", "0102020000000100AA", "0202000300000202AA", "010100FE000001FFAA")):
            self.assertEqual(decoder.undo_layout(bytes.fromhex(coded), 2, layout, 7), rows)

    def test_the_bins_of_the_document_are_sixteen_bytes(self):
        coded = bytes.fromhex("10 0205 0313A20001 52FA40C8")
        self.assertEqual(decoder.decode_bins(coded, 1, False, 100), bytes([7] * 12 + [0xC8, 0xC9, 0xCA, 0xCB]))

    def test_the_compressors_of_the_document_give_its_examples(self):
        data = b"a rose is a rose is a rose is a rose"
        pglz = bytes.fromhex("00 6120726F73652069 04 7320 0F0A08")
        self.assertEqual(decoder.pglz_compress(data, True), pglz)
        self.assertEqual(decoder.pglz_compress(data, False), pglz)
        lz4 = bytes.fromhex("AF 6120726F7365206973 20 0A0002 50 20726F7365")
        self.assertEqual(decoder.lz4_compress(data), lz4)
        self.assertIsNone(decoder.pglz_compress(b"be brief", True))
        self.assertEqual(decoder.lz4_compress(b"be brief"), b"\x80be brief")

    def test_sort_keys_are_those_of_the_document(self):
        def sort_key(value, sort, order, **flags):
            table = decoder.Table({"first_chunk": 0, "chunks": 1, "attributes": [decoder.TYPES_OF_VALUES[sort]],
                                   "indexes": [[{"attribute": 0, "order": order, **flags}]]}, "a table")
            return decoder.Entries(decoder.TableRows(table), table.keys[0]).sort_key((value,))

        numeric = struct.Struct("<BHHH")
        for value, sort, order, flags, expected in (
                (struct.pack("<i", -2), 3, "signed", {}, "7F FF FF FE"),
                (struct.pack("<i", 5), 3, "signed", {"nullable": True, "descending": True}, "01 7F FF FF FA"),
                (None, 3, "signed", {"nullable": True}, "02"),
                (struct.pack("<d", -1), 4, "float", {}, "40 0F FF FF FF FF FF FF"),
                (b"\x07ab", 0, "bytes", {}, "61 62 00"),
                (b"\x07ab", 0, "bytes", {"descending": True}, "9E 9D FF"),
                (numeric.pack(0x0F, 0x8100, 44, 500), 0, "numeric", {}, "03 80 00 00 2D 01 F5 00 00"),
                (numeric.pack(0x0F, 0xA100, 44, 500), 0, "numeric", {}, "01 7F FF FF D2 FE 0A FF FF")):
            self.assertEqual(sort_key(value, sort, order, **flags), bytes.fromhex(expected).ljust(64, b"\0"))

    def test_the_index_of_the_document_is_one(self):
        text = read(ROOT, "docs", "format", "backup.md").decode()
        example = next(part.split("```")[0] for part in text.split("```json\n")[1:] if '{"table"' in part)

        def index(lines):
            backup = decoder.Backup.__new__(decoder.Backup)
            backup.label, backup.what, backup.packs, backup.pack_ends = "it", "it", [None], {}
            backup.chunks, backup.tables, backup.entries, backup.others, backup.references = [], [], [], [], []
            backup.files, backup.tablespaces = {"index": {}, "original_bytes": 5270656}, [16385]
            backup.stored_stream = lambda *_: [lines.encode()]
            backup._load(True)
            return backup

        read_index = index(example)
        self.assertEqual([c.index for c in read_index.chunks], [None, [0, 1], None])
        self.assertEqual([len(key) for key in read_index.tables[0].keys], [1, 2])
        lines = example.splitlines(keepends=True)
        with self.assertRaises(decoder.Damaged):
            index("".join([lines[3], *lines[:3], *lines[4:]]))
        for one, other in (('"index":[0,1]', '"index":[0,2]'), ('"index":[0,1]', '"index":[1,0]'),
                           ('"first_chunk":0', '"first_chunk":1'), ('"first_chunk":0', '"first_chunk":2'),
                           ('"chunks":1', '"chunks":0'), ('"chunks":1', '"chunks":2'), ('"chunks":1', '"chunks":9'),
                           ('"order":"bytes"', '"order":"signed"'), ('"attribute":2', '"attribute":3'),
                           ('"fixed8"', '"fixed3"'), ('"original_bytes":4194304', '"original_bytes":4194303')):
            self.assertIn(one, example)
            with self.assertRaises(decoder.Damaged, msg=other):
                index(example.replace(one, other, 1))


def table_of_golden_files():
    """The pages that crates/codec/tests/all/table_pages.rs makes of 900 rows."""
    state = 10

    def below(end):
        nonlocal state
        state = state * 6364136223846793005 + 1442695040888963407 & decoder.M64
        return (state >> 33) % end

    def padded(data, to):
        return data + bytes(-len(data) % to)

    pages, pointers, items = [], [], b""

    def end_page():
        head = struct.pack("<8xxxxxHHHHI", 24 + 4 * len(pointers), 8192 - len(items), 8192, 0x2004, 0)
        pages.append(head + struct.pack(f"<{len(pointers)}I", *pointers) + bytes(8168 - 4 * len(pointers) - len(items)) + items)

    for _ in range(900):
        number = below(1 << 20) - (1 << 19)
        text = b"key %d" % below(500) if below(10) else None
        long, state_of_row = below(300) - 100, below(20)
        if 24 + 4 * (len(pointers) + 2) + 104 + 64 > 8192 - len(items):
            end_page()
            pointers, items = [], b""
        if state_of_row == 1:
            pointers.append(3 << 15)
            continue
        if state_of_row == 0:
            pointers.append(len(pointers) + 2 | 2 << 15)
        head = padded(b"\t" + bytes(17) + struct.pack("<HH", 3 | (0 if state_of_row else 0x8000), text is None) + b"\0"
                      + (b"" if text else b"\5"), 8)
        head = head[:22] + bytes([len(head)]) + head[23:]
        own = struct.pack("<i", number) + (bytes([len(text) + 1 << 1 | 1]) + text if text else b"")
        own = padded(head + own, 8) + struct.pack("<q", long)
        items = padded(own, 8) + items
        pointers.append(8192 - len(items) | 1 << 15 | len(own) << 17)
    end_page()
    return b"".join(pages)


class GoldenFiles(unittest.TestCase):
    def test_every_golden_file_gives_its_original(self):
        hashes = dict(reversed(line.split()) for line in read(GOLDEN, "hashes.txt").decode().splitlines())
        files = sorted(n for n in os.listdir(GOLDEN) if n.endswith(".wz"))
        self.assertEqual(files, sorted(hashes))
        for name in files:
            with self.subTest(name):
                if name.endswith("_own_pages.wz"):
                    with self.assertRaisesRegex(decoder.Damaged, "does not replay"):
                        decoder.decode_file(read(GOLDEN, name))
                    continue
                original, _ = decoder.decode_file(read(GOLDEN, name))
                self.assertEqual(decoder.blake3(original).hex(), hashes[name])

    def test_differences_need_their_base(self):
        base, _ = decoder.decode_file(read(GOLDEN, "v7_heap_pages.wz"))
        data = read(GOLDEN, "differences", "v7_differences.wz")
        original, _ = decoder.decode_file(data, base)
        header = decoder.Header(decoder.Reader(data))
        self.assertEqual(decoder.blake3(original), header.hash)
        for wrong in (None, base[8192:], bytes(len(base))):
            with self.assertRaises(decoder.Damaged):
                decoder.decode_file(data, wrong)

    def test_pages_of_an_index_need_their_table(self):
        table = decoder.Table({"first_chunk": 0, "chunks": 1, "attributes": ["fixed4", "varlena", "fixed8"], "indexes": [
            [{"attribute": 1, "order": "bytes", "nullable": True}, {"attribute": 0, "order": "signed"}],
            [{"attribute": 2, "order": "signed", "descending": True}]]}, "a table")
        rows = decoder.TableRows(table)
        pages = table_of_golden_files()
        rows.add(pages[:8192])
        rows.add(pages[8192:])
        entries = [decoder.Entries(rows, key) for key in table.keys]
        for n, name in enumerate(("v10_index_pages.wz", "v10_posting_lists.wz")):
            data = read(GOLDEN, "index_pages", name)
            original, _ = decoder.decode_file(data, None, entries[n])
            self.assertEqual(len(original) % 8192, 0)
            for wrong in (None, entries[1 - n], decoder.Entries(decoder.TableRows(table), table.keys[n])):
                with self.assertRaises(decoder.Damaged):
                    decoder.decode_file(data, None, wrong)
        with self.assertRaises(decoder.Damaged):
            decoder.decode_file(read(GOLDEN, "v7_btree_pages.wz"), None, entries[0])

    def test_the_golden_repository_gives_its_segment(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "segment")
            name = "000000010000000000000001"
            self.assertEqual(run_decoder("--repo", GOLDEN_REPOSITORY, "list"), (0, ""))
            self.assertEqual(run_decoder("--repo", GOLDEN_REPOSITORY, "wal", name, "-o", out), (0, ""))
            self.assertEqual(len(read(out)), 1 << 20)

    def test_a_flipped_bit_or_a_missing_end_never_gives_an_output(self):
        names = ("v1_heap_update.wz", "v1_foreign.wz", "v5_parts.wz", "v6_coded_streams.wz", "v7_heap_pages.wz")
        with tempfile.TemporaryDirectory() as scratch:
            for name in names:
                data = read(GOLDEN, name)
                for step in range(8):
                    at = step * (len(data) - 1) // 7
                    for kind in ("flipped", "cut off"):
                        damaged = bytearray(data)
                        damaged[at] ^= 1 << step
                        damaged = damaged if kind == "flipped" else data[:at]
                        path, out = os.path.join(scratch, "x.wz"), os.path.join(scratch, "x")
                        with open(path, "wb") as f:
                            f.write(damaged)
                        code, said = run_decoder(path)
                        self.assertEqual((code, os.path.exists(out)), (1, False), f"{name} {kind} at {at}")
                        self.assertEqual(said.count("\n"), 1, said)

    def test_what_checksums_do_not_see_never_gives_an_output(self):
        """Damage below the checksums: of the content, whose blocks get right checksums again."""
        for name in ("v1_heap_and_btree.wz", "v4_gin_keys.wz", "v7_btree_pages.wz", "v3_row_versions.wz"):
            data = read(GOLDEN, name)
            whole, _ = decoder.decode_file(data)
            reader = decoder.Reader(data)
            header = decoder.Header(reader)
            block = decoder.Reader(data, reader.at)
            self.assertEqual(block.u8(), 1)
            length, refused = block.number(), 0
            stored = block.take(block.number() + 4)[4:]
            content = decoder.zstd_decode(stored, length)
            for at in range(0, len(content), max(1, len(content) // 150)):
                damaged = bytearray(content)
                damaged[at] ^= 1 << at % 8
                body = b"\0" + number(len(damaged)) * 2 + decoder.crc32c(damaged).to_bytes(4, "little") + damaged
                try:
                    found = decoder.decode_member(header, bytes(body), None)
                except Exception:
                    refused += 1
                else:
                    # Some bits mean nothing, such as those of a number that is 0 or not.
                    self.assertEqual(found, whole, f"{name} with a flipped bit at {at} of its content")
            self.assertGreater(refused, 100, name)


def number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


WALZIP = os.environ.get("WALZIP")
PG_BIN = os.environ.get("PG_BIN", "/usr/lib/postgresql/15/bin")

SCHEMA = """
create table things (id int primary key, name text, price numeric(10,2), weight float8, at timestamptz, body text,
  doc jsonb, tags text[]);
create index on things (name); create index on things using gin (doc); create index on things using gin (tags);
create index on things using gist (box(point(id, id), point(id + 1, id + 1)));
create table cold (a bigint primary key, b text) tablespace away;
create table told (a bigint, b text collate "C", c numeric, d float8, e uuid);
create index on told (b, a desc); create index on told (c desc nulls last) include (a); create index on told (e, d);
"""
TOLD = """
insert into told select n % 5000, case when n % 9 > 0 then md5((n % 7000)::text) end, (n * 7919 % 100003 - 50000) / 100.0,
  sin(n), md5((n * 31)::text)::uuid from generate_series(1, 40000) n;
delete from told where a % 11 = 0; update told set d = 0 where a % 7 = 0; vacuum told;
update told set c = -c where a % 50 = 0; delete from told where a % 13 = 0; checkpoint
"""
FILL = """
insert into things select n, 'thing ' || n % 97, n * 1.25, n / 8.0, '2026-01-01'::timestamptz + n * interval '1 min',
  repeat(md5(n::text), 1 + n % 300), jsonb_build_object('n', n, 'kind', 'k' || n % 7, 'list', array[n, n + 1]),
  array['t' || n % 11, 't' || n % 13] from generate_series({0}, {1}) n;
insert into cold select n, md5(n::text) || n from generate_series({0}, {1}) n;
"""


@unittest.skipUnless(WALZIP, "set WALZIP to the program, and PG_BIN to PostgreSQL's, for a repository of a real server")
class RealRepository(unittest.TestCase):
    """A cluster that was archived and backed up by the real program."""

    @classmethod
    def setUpClass(cls):
        cls.walzip = os.path.abspath(WALZIP)
        cls.as_server = []
        if os.getuid() == 0:
            users = {user.pw_name: user for user in pwd.getpwall()}
            user = users.get("postgres") or users["nobody"]
            cls.as_server = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        cls.scratch = tempfile.mkdtemp(prefix="walzip-decoder-")
        if cls.as_server:
            os.chown(cls.scratch, user.pw_uid, user.pw_gid)
        os.chmod(cls.scratch, 0o755)
        cls.repo, cls.data = cls.path("repo"), cls.path("data")
        cls.environment = dict(os.environ, PGHOST=cls.scratch, PGPORT="5498", PGDATABASE="postgres", PGUSER="postgres",
                               WALZIP_REPO=cls.repo, HOME=cls.scratch)
        try:
            cls._make()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        if os.path.exists(cls.path("data", "postmaster.pid")):
            cls.run_as_server(os.path.join(PG_BIN, "pg_ctl"), "-D", cls.data, "-m", "immediate", "stop", check=False)
        shutil.rmtree(cls.scratch, ignore_errors=True)

    @classmethod
    def path(cls, *parts):
        return os.path.join(cls.scratch, *parts)

    @classmethod
    def run_as_server(cls, *command, check=True):
        done = subprocess.run([*cls.as_server, *command], env=cls.environment, capture_output=True, text=True,
                              cwd=cls.scratch)
        if check and done.returncode:
            raise AssertionError(f"{command} failed with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    @classmethod
    def sql(cls, text):
        return cls.run_as_server(os.path.join(PG_BIN, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", text)

    @classmethod
    def backup(cls, sort, *options):
        before = set(decoder.Repository(cls.repo).labels())
        cls.run_as_server(cls.walzip, "backup", "--type", sort, *options)
        return (set(decoder.Repository(cls.repo).labels()) - before).pop()

    @classmethod
    def _make(cls):
        cls.run_as_server(os.path.join(PG_BIN, "initdb"), "-k", "-A", "trust", "-U", "postgres", "-D", cls.data)
        settings = ["listen_addresses = ''", f"unix_socket_directories = '{cls.scratch}'", "port = 5498", "fsync = off",
                    "archive_mode = on", "wal_compression = zstd", "max_wal_size = 200MB", "autovacuum = off",
                    f"archive_command = '{cls.walzip} archive-push --repo {cls.repo} %p'"]
        with open(os.path.join(cls.data, "postgresql.conf"), "a") as f:
            f.write("\n".join(settings) + "\n")
        cls.run_as_server(cls.walzip, "init", "-D", cls.data)
        control = os.path.join(PG_BIN, "pg_ctl")
        cls.run_as_server(control, "-D", cls.data, "-l", cls.path("log"), "-w", "start")
        cls.run_as_server("mkdir", cls.path("away"))
        cls.sql(f"create tablespace away location '{cls.path('away')}'")
        for statement in SCHEMA.split(";")[:-1]:
            cls.sql(statement)
        cls.sql(FILL.format(1, 6000))
        for statement in TOLD.split(";"):
            cls.sql(statement)
        cls.labels = [cls.backup("full", "--level", "3")]
        cls.sql("alter system set wal_compression = pglz"), cls.sql("select pg_reload_conf()")
        cls.sql("update things set price = price + 1, name = name || '!' where id % 50 = 0; delete from cold where a % 9 = 0")
        cls.sql("vacuum things"), cls.sql("checkpoint"), cls.sql(FILL.format(6001, 6500))
        cls.labels.append(cls.backup("incr"))
        cls.sql("alter system set wal_compression = lz4"), cls.sql("select pg_reload_conf()")
        cls.sql("update things set weight = weight * 2 where id between 100 and 400; checkpoint")
        cls.sql("update things set doc = doc || '{\"more\": [1.5, null, \"x\"]}' where id between 300 and 500")
        cls.labels.append(cls.backup("incr"))
        cls.sql("update cold set b = b || 'x' where a between 10 and 90; update told set c = c + 1 where a % 500 = 1; checkpoint")
        cls.labels.append(cls.backup("diff"))
        cls.expected = cls.sql("select count(*), sum(length(b)) > 0 from cold").strip()
        cls.run_as_server(control, "-D", cls.data, "-m", "fast", "-w", "stop")

    def test_0_indexes_are_told_from_their_table(self):
        told = decoder.Backup(decoder.Repository(self.repo), self.labels[0])
        told.load()
        self.assertEqual([len(table.keys) for table in told.tables], [3])
        self.assertEqual({c.index[1] for c in told.chunks if c.index}, {0, 1, 2})
        self.assertEqual(told.format, 5)

    def decode_backup(self, repository, label):
        out = tempfile.mkdtemp(dir=self.scratch) + "/out"
        self.assertEqual(run_decoder("--repo", repository, "backup", label, "-o", out), (0, ""))
        return out

    def compare(self, one, other, left_out=()):
        """Every file and directory, with its bytes and its mode; links of tablespaces are followed."""
        found = []
        for root in (one, other):
            entries = {}
            for directory, names, files in os.walk(root, followlinks=True):
                for name in names + files:
                    path = os.path.join(directory, name)
                    relative = os.path.relpath(path, root)
                    if relative not in left_out:
                        linked = os.path.dirname(relative) == "pg_tblspc"
                        entries[relative] = (os.path.isdir(path), 0 if linked else os.stat(path).st_mode & 0o7777)
            found.append(entries)
        self.assertEqual(found[0], found[1])
        files = [p for p, (directory, _) in found[0].items() if not directory]
        self.assertEqual(filecmp.cmpfiles(one, other, files, shallow=False)[1:], ([], []))
        return len(files)

    # What a restore writes itself, and what it leaves out.
    RESTORED = ("postgresql.auto.conf", "recovery.signal", "backup_manifest")

    def test_1_every_backup_is_what_walzip_restores(self):
        self.assertEqual([l[-1] for l in self.labels], ["F", "I", "I", "D"])
        for n, label in enumerate(self.labels):
            with self.subTest(label):
                out = self.decode_backup(self.repo, label)
                restored, away = self.path(f"restored{n}"), self.path(f"away{n}")
                self.run_as_server(self.walzip, "restore", "--backup", label, "-T", f"away={away}", restored)
                left_out = self.RESTORED
                self.assertGreater(self.compare(out, restored, left_out), 900)

    def test_2_every_wal_file_is_what_walzip_gets(self):
        repository = decoder.Repository(self.repo)
        names = list(repository.wal_names(repository.clusters[0]))
        self.assertGreater(len(names), 4)
        for name in names:
            with self.subTest(name):
                out, got = self.path(f"decoded.{name}"), self.path(f"got.{name}")
                self.assertEqual(run_decoder("--repo", self.repo, "wal", name, "-o", out), (0, ""))
                self.run_as_server(self.walzip, "archive-get", name, got)
                self.assertTrue(filecmp.cmp(out, got, shallow=False))

    def test_3_block_hashes_are_those_of_the_document(self):
        for label in self.labels:
            backup = decoder.Backup(decoder.Repository(self.repo), label)
            backup.load()
            described = backup.json["block_hashes"]
            self.assertEqual(described["function"], "highwayhash64")
            key = bytes.fromhex(described["key"])
            stored = [b"".join(backup.stored_objects(described.get(n, []))) for n in ("objects", "changed")]
            expected, end = [b"", b""], [0, backup.own]
            for entry in backup.entries:
                for which, at, length in entry.ranges or ():
                    changed = at >= backup.own
                    # What lies before the end is shared with an earlier file, which has the hashes.
                    if which == 0 and at >= end[changed]:
                        end[changed] = at + length
                        data = b"".join(backup.read(at, length))
                        expected[changed] += b"".join(
                            highwayhash64(data[b : b + 8192], key) for b in range(0, length, 8192))
            self.assertEqual(expected, stored, label)
            self.assertEqual(end, [backup.own, backup.own + backup.changed])

    def rewrite(self, change):
        """A copy of the repository whose full backup has another description."""
        copied = tempfile.mkdtemp(dir=self.scratch) + "/repo"
        shutil.copytree(self.repo, copied, symlinks=True)
        label = self.labels[0]
        path = os.path.join(copied, "backup", label, "backup.json")
        described = json.loads(read(path))
        change(described, os.path.join(copied, "backup", label))
        os.chmod(path, 0o644)
        with open(path, "w") as f:
            json.dump(described, f)
        return copied, label

    def as_format_2(self, described, directory):
        described["format"] = 2
        del described["type"], described["block_hashes"]

    def test_4_formats_1_and_2_are_read(self):
        expected = self.decode_backup(self.repo, self.labels[0])
        copied, label = self.rewrite(self.as_format_2)
        self.compare(expected, self.decode_backup(copied, label))

        def as_format_1(described, directory):
            self.as_format_2(described, directory)
            described["format"] = 1
            del described["files"]
            oid = described["tablespaces"][0]["oid"]
            described["archives"] = []
            for number in (oid, None):
                data = self.tar(expected, number, oid)
                name = f"{number or 'base'}.tar.zst.0000"
                stored = self.zstd(data)
                with open(os.path.join(directory, name), "wb") as f:
                    f.write(stored)
                archive = {"original_bytes": len(data), "objects": [
                    {"name": name, "size_bytes": len(stored), "blake3": decoder.blake3(stored).hex()}]}
                if number:
                    archive["tablespace_oid"] = number
                described["archives"].append(archive)

        copied, label = self.rewrite(as_format_1)
        self.compare(expected, self.decode_backup(copied, label))

    def test_4_the_objects_of_later_attempts_are_read(self):
        expected = self.decode_backup(self.repo, self.labels[0])

        def as_format_4(described, directory):
            described["format"], described["attempts"] = 4, 2
            os.mkdir(os.path.join(directory, "2"))
            for found in described["files"]["index"]["objects"] + described["manifest"]["objects"]:
                os.rename(os.path.join(directory, found["name"]), os.path.join(directory, "2", found["name"]))
                found["name"] = "2/" + found["name"]

        copied, label = self.rewrite(as_format_4)
        self.compare(expected, self.decode_backup(copied, label))

        for wrong in ((3, 2), (4, 1), (5, 1), (6, 2)):
            def changed(described, directory, wrong=wrong):
                described["format"], described["attempts"] = wrong

            copied, label = self.rewrite(changed)
            out = tempfile.mkdtemp(dir=self.scratch) + "/out"
            self.assertEqual(run_decoder("--repo", copied, "backup", label, "-o", out)[0], 1, wrong)

    @staticmethod
    def zstd(data):
        if decoder._ZSTANDARD:
            return decoder._ZSTANDARD.ZstdCompressor(write_checksum=True).compress(data)
        return decoder._ZSTD_API[0].compress(data)

    @staticmethod
    def tar(directory, number, oid):
        out = io.BytesIO()
        root = os.path.join(directory, "pg_tblspc", str(oid)) if number else directory
        with tarfile.open(fileobj=out, mode="w") as tar:
            def kept(member):
                inner = member.name.split("/")
                if number is None and inner[:2] == ["pg_tblspc", str(oid)]:
                    if len(inner) > 2:
                        return None
                    member = copy.copy(member)
                    member.type, member.linkname = tarfile.SYMTYPE, "/srv/away"
                return None if member.name == "backup_manifest" else member
            for name in sorted(os.listdir(root)):
                tar.add(os.path.join(root, name), name, filter=kept)
        return out.getvalue()

    def test_5_damage_to_a_repository_never_gives_an_output(self):
        label = self.labels[1]
        packs = f"backup/{label}/"
        objects = sorted(os.listdir(os.path.join(self.repo, packs)))
        names = [packs + n for n in objects if not n.startswith(("block", "changed", "started"))]
        names += [f"backup/{self.labels[0]}/pack.0000"]
        for name in names:
            for kind in ("flipped", "missing", "cut off"):
                copied = tempfile.mkdtemp(dir=self.scratch) + "/repo"
                shutil.copytree(self.repo, copied)
                path = os.path.join(copied, name)
                data = bytearray(read(path))
                data[len(data) // 2] ^= 4
                os.unlink(path)
                if kind != "missing":
                    with open(path, "wb") as f:
                        f.write(data if kind == "flipped" else data[: len(data) // 2])
                out = os.path.join(os.path.dirname(copied), "out")
                code, said = run_decoder("--repo", copied, "backup", label, "-o", out)
                self.assertEqual((code, os.path.exists(out)), (1, False), f"{name} {kind}")
                self.assertEqual(said.count("\n"), 1, said)
                shutil.rmtree(os.path.dirname(copied))

    def test_6_a_server_starts_from_what_was_decoded(self):
        """What is left to do where walzip is gone, as README.md says it."""
        data, wal = self.decode_backup(self.repo, self.labels[1]), self.path("wal")
        repository = decoder.Repository(self.repo)
        os.mkdir(wal)
        for name in repository.wal_names(repository.clusters[0]):
            decoder.write_whole(os.path.join(wal, name), repository.wal(name, None))
        for name in os.listdir(os.path.join(data, "pg_tblspc")):
            link = os.path.join(data, "pg_tblspc", name)
            os.rename(link, self.path("space"))
            os.symlink(self.path("space"), link)
        with open(os.path.join(data, "postgresql.auto.conf"), "a") as f:
            f.write(f"restore_command = 'cp {wal}/%f %p'\narchive_mode = off\n")
        open(os.path.join(data, "recovery.signal"), "w").close()
        if self.as_server:
            os.chmod(os.path.dirname(data), 0o755)
            subprocess.run(["chown", "-R", "postgres:postgres", data, wal, self.path("space")], check=True)
        control = os.path.join(PG_BIN, "pg_ctl")
        self.run_as_server(control, "-D", data, "-l", self.path("log6"), "-w", "start")
        try:
            while self.sql("select pg_is_in_recovery()").strip() == "t":
                time.sleep(0.2)
            self.assertEqual(self.sql("select count(*), sum(length(b)) > 0 from cold").strip(), self.expected)
            self.assertEqual(self.sql("select count(*) from things where doc ? 'more'").strip(), "201")
        finally:
            self.run_as_server(control, "-D", data, "-m", "immediate", "stop")


if __name__ == "__main__":
    unittest.main(verbosity=2)
