# ---------------------------------------------------------------- the repository (docs/format/repository.md)

MAX_WAL_OBJECT_BYTES = (1 << 30) + (1 << 20)
MAX_SMALL_JSON_BYTES = 65536
MAX_BACKUP_JSON_BYTES = 268435456
MAX_OBJECT_BYTES = 167772160000
LABEL = re.compile(r"[0-9]{8}-[0-9]{6}[FDI]\Z")
OBJECT_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")
SEGMENT_NAME = re.compile(r"[0-9A-F]{24}(\.|\Z)")
TYPES = {"F": "full", "D": "diff", "I": "incr"}


def parse_json(data, what, text=False):
    try:
        value = json.loads(data if text else data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is no JSON: {error}") from None
    need(isinstance(value, dict), f"{what} is no JSON object")
    return value


def field(value, name, sort, what):
    found = value.get(name)
    need(isinstance(found, sort) and not (sort is int and (isinstance(found, bool) or found < 0)),
         f"{what}: the field {name} is missing or wrong")
    return found


class Repository:
    """The objects below a directory."""

    def __init__(self, directory):
        self.directory = directory
        need(os.path.isdir(directory), f"{directory} is no directory")
        self.clusters = self._clusters()

    def path(self, key):
        """The path of an object; links on the way are errors."""
        path = self.directory
        for part in key.split("/"):
            path = os.path.join(path, part)
            need(not os.path.islink(path), f"{path} is a symbolic link")
        return path

    def open(self, key):
        path = self.path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            raise Damaged(f"{key} is not in the repository") from None
        opened = os.fdopen(descriptor, "rb")
        if not os.path.isfile(path):
            opened.close()
            raise Damaged(f"{key} is no regular file")
        return opened

    def read(self, key, most):
        with self.open(key) as opened:
            data = opened.read(most + 1)
        need(len(data) <= most, f"{key} is longer than it may be")
        return data

    def names(self, key):
        path = self.path(key)
        if not os.path.isdir(path):
            return []
        return sorted(n for n in os.listdir(path) if not n.startswith("."))

    def _record(self, key):
        record = parse_json(self.read(key, MAX_SMALL_JSON_BYTES), key)
        version = field(record, "format", int, key)
        need(version == 1, f"{key} has the format {version}, which this decoder does not know")
        system, major = field(record, "system_identifier", str, key), field(record, "major", int, key)
        need(system.isdigit() and str(int(system)) == system and int(system) <= M64, f"{key}: no system identifier")
        return f"{major}-{system}"

    def _clusters(self):
        clusters = [self._record("repository.json")]
        numbers = [n[:-5] for n in self.names("cluster") if re.fullmatch(r"[1-9][0-9]*\.json", n)]
        for n in range(2, 2 + len(numbers)):
            need(str(n) in numbers, f"cluster/{n}.json is missing")
            clusters.append(self._record(f"cluster/{n}.json"))
        need(len(set(clusters)) == len(clusters), "two records have the same cluster")
        return clusters

    def wal_names(self, cluster):
        for name in self.names(f"wal/{cluster}"):
            key = f"wal/{cluster}/{name}"
            if os.path.isdir(self.path(key)):
                for inner in self.names(key):
                    if inner.endswith(".wz") and NAME.match(inner[:-3]) and SEGMENT_NAME.match(inner[:-3]):
                        if inner.startswith(name) and len(name) == 16:
                            yield inner[:-3]
            elif name.endswith(".wz") and NAME.match(name[:-3]) and not SEGMENT_NAME.match(name[:-3]):
                yield name[:-3]

    def labels(self):
        return [n for n in self.names("backup")
                if LABEL.match(n) and os.path.isfile(self.path(f"backup/{n}/backup.json"))]

    def wal(self, name, cluster):
        need(NAME.match(name), f"{name} is no name of a WAL file")
        directory = f"{name[:16]}/" if SEGMENT_NAME.match(name) else ""
        found = [c for c in self.clusters if not cluster or c == cluster]
        need(found, f"the repository has no cluster {cluster}")
        found = [f"wal/{c}/{directory}{name}.wz" for c in found]
        found = [k for k in found if os.path.lexists(self.path(k))]
        need(found, f"{name} is not in the repository")
        need(len(found) == 1, f"several clusters have {name}; say --cluster: " + ", ".join(k.split("/")[1] for k in found))
        try:
            data, own = decode_file(self.read(found[0], MAX_WAL_OBJECT_BYTES))
            need(own in ("", name), f"the object is {own}: it is in the wrong place")
        except Damaged as error:
            raise Damaged(f"{found[0]}: {error}") from None
        return data


# ---------------------------------------------------------------- backups (docs/format/backup.md)


class ZstdStream:
    """Decompresses one frame that is fed in pieces."""

    def __init__(self):
        if _ZSTANDARD:
            self.object = _ZSTANDARD.ZstdDecompressor(max_window_size=1 << WINDOW_LOG_MAX).decompressobj()
        else:
            need(_ZSTD_API, "no module for zstd: install `zstandard` or `backports.zstd`")
            self.object = _ZSTD_API[0].ZstdDecompressor()

    def feed(self, data):
        need(not self.object.eof, "bytes after the end of a compressed stream")
        try:
            out = self.object.decompress(data)
        except Exception as error:
            raise Damaged(f"zstd: {error}") from None
        need(not self.object.unused_data, "bytes after the end of a compressed stream")
        return out

    def finish(self):
        need(self.object.eof, "a compressed stream is cut off")


def hexadecimal(value, length, what):
    need(isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{2 * length}}}", value), f"{what} is no hash")
    return bytes.fromhex(value)


class Chunk:
    __slots__ = ("pack", "offset", "size", "length", "hash", "original_hash", "start", "base")


class Entry:
    """A directory or a file of the index."""

    __slots__ = ("path", "mode", "size", "ranges", "number")


def safe_path(path):
    parts = path.split(b"/")
    need(path and b"\0" not in path and not any(p in (b"", b".", b"..") for p in parts),
         f"{path!r} leads out of its directory")
    return path


class Backup:
    """A backup as its backup.json describes it."""

    CACHED = 48

    def __init__(self, repository, label, needed_by=None):
        self.repository, self.label = repository, label
        self.prefix = f"backup/{label}/"
        self.what = what = self.prefix + "backup.json"
        need(LABEL.match(label), f"{label} is no label of a backup")
        need(label in repository.labels(), f"the backup {label} is not in the repository"
             + (f", and {needed_by} needs it" if needed_by else ""))
        self.json = d = parse_json(repository.read(what, MAX_BACKUP_JSON_BYTES), what)
        self.format = field(d, "format", int, what)
        need(1 <= self.format <= 3, f"{what} has the format {self.format}, which this decoder does not know")
        need(field(d, "label", str, what) == label, f"{what} is of another backup")
        self.cluster = f"{field(d, 'major', int, what)}-{field(d, 'system_identifier', str, what)}"
        need(self.cluster in repository.clusters, f"{what} is of a cluster that the repository does not have")
        self.type = d.get("type", "full")
        need(("type" in d) == (self.format == 3), f"{what} has a type, or has none, against its format")
        need(("block_hashes" in d) == (self.format == 3), f"{what} has block hashes, or has none, against its format")
        need(("files" in d) == (self.format > 1), f"{what} has files, or has none, against its format")
        need(self.type == TYPES[label[-1]], f"the type of {what} is not that of its label")
        self.references = d.get("references", [])
        if self.type == "full":
            need("prior" not in d and "references" not in d, f"{what} is full, and refers to others")
        else:
            field(d, "prior", str, what)
            names = field(d, "references", list, what)
            need(names and label not in names and len(set(names)) == len(names) <= 4096,
                 f"{what} refers to backups as none does")
        self.tablespaces = [field(t, "oid", int, what) for t in field(d, "tablespaces", list, what)]
        self.new_tablespaces = [field(t, "oid", int, what) for t in d.get("new_tablespaces", [])]
        self.chunks, self.entries, self.others = [], [], []
        self.cache = OrderedDict()
        if self.format > 1:
            self.files = field(d, "files", dict, what)
            self.packs = [self._object(p) for p in field(self.files, "packs", list, what)]

    def _object(self, value):
        need(isinstance(value, dict), f"{self.what}: no description of an object")
        name, size = field(value, "name", str, self.what), field(value, "size_bytes", int, self.what)
        need(len(name) <= 200 and all(OBJECT_PART.match(p) for p in name.split("/")),
             f"{self.what}: {name} is no name of an object")
        return self.prefix + name, size, hexadecimal(value.get("blake3"), 32, f"{self.what}: {name}")

    def stored_objects(self, objects):
        """The bytes of each object, whose hashes are right."""
        for value in objects:
            key, size, digest = self._object(value)
            need(size <= MAX_OBJECT_BYTES, f"{key} is too long")
            data = self.repository.read(key, size)
            need(len(data) == size and blake3(data) == digest, f"{key} is damaged: its size or its hash differs")
            yield data

    def stored_stream(self, value, most=None):
        """The pieces of a stored stream, decompressed."""
        need(isinstance(value, dict), f"{self.what}: no description of a stream")
        length = field(value, "original_bytes", int, self.what)
        stream, total, stored = ZstdStream(), 0, 0
        need(most is None or length <= most, f"{self.what}: a stream is too long")
        for data in self.stored_objects(field(value, "objects", list, self.what)):
            stored += len(data)
            for at in range(0, len(data), 4096):
                part = stream.feed(data[at : at + 4096])
                total += len(part)
                need(total <= length, f"{self.what}: a stream has more bytes than its description says")
                need(most is None or total <= 200 * field_sum(value) + (1 << 20), f"{self.what}: a stream expands too far")
                yield part
        stream.finish()
        need(total == length, f"{self.what}: a stream has fewer bytes than its description says")

    # The index.

    def load(self):
        """Reads the index, and the backups that it refers to."""
        for n, label in enumerate(self.references):
            other = Backup(self.repository, label, self.label)
            need(other.cluster == self.cluster, f"{label} is of another cluster, and {self.label} needs it")
            need((other.type == "full") == (n == 0), f"{label} has not the type with which {self.label} refers to it")
            need(other.format > 1, f"{label} has no stream, and {self.label} refers to it")
            need(not other.references or other.references[0] == self.references[0],
                 f"{label} refers to another full backup than {self.label}")
            other.load_chunks(self.others[:1])
            self.others.append(other)
        self._load(True)

    def load_chunks(self, others):
        self.others = others
        self._load(False)

    def _load(self, files):
        value = field(self.files, "index", dict, self.what)
        rest, self.position, self.ended = b"", [0, 0], False
        self.piece_total, self.piece_last, self.piece_count = 0, {}, 0
        self.own = self.changed = None
        self.shared, self.first_at, self.open_file, self.file_bytes = [], {}, None, 0
        for part in self.stored_stream(value, 4 << 30):
            lines = (rest + part).split(b"\n")
            rest = lines.pop()
            for line in lines:
                need(len(line) < 16384, f"{self.label}: a line of the index is too long")
                self._line(line, files)
            need(len(rest) < 16384, f"{self.label}: a line of the index is too long")
        need(not rest, f"{self.label}: the index ends within a line")
        self._chunks_end()
        if files:
            need(self.open_file is None, f"{self.label}: a file has not all its pieces")
            need(self.position == [self.own, self.changed], f"{self.label}: chunks have not as many bytes as files")
            need(self.file_bytes == field(self.files, "original_bytes", int, self.what),
                 f"{self.label}: files have not as many bytes as {self.what} says")

    def _line(self, line, files):
        value = parse_json(line, f"{self.label}: a line of the index")
        need(len(value) == 1, f"{self.label}: a line of the index has not one field")
        name, inner = next(iter(value.items()))
        if name == "chunk":
            need(self.own is None and isinstance(inner, dict), f"{self.label}: a chunk behind a file")
            self._chunk(inner)
            return
        self._chunks_end()
        if not files:
            return
        if name == "pieces" and isinstance(inner, list):
            self._pieces(inner)
            return
        need(self.open_file is None, f"{self.label}: a file has not all its pieces")
        need(name in ("directory", "file") and isinstance(inner, dict), f"{self.label}: no line of an index")
        entry = self._entry(inner)
        entry.number = len(self.entries)
        if name == "file":
            self._file(inner, entry)
        self.entries.append(entry)

    def _chunk(self, value):
        what = f"{self.label}: a chunk of the index"
        c = Chunk()
        c.pack, c.offset = field(value, "pack", int, what), field(value, "offset", int, what)
        c.size, c.length = field(value, "size_bytes", int, what), field(value, "original_bytes", int, what)
        c.hash = hexadecimal(value.get("blake3"), 32, what)
        c.original_hash = hexadecimal(value.get("original_blake3"), 32, what)
        need(c.pack < len(self.packs), f"{what} is in a pack that is not there")
        need(0 < c.length <= 16 << 20 and 0 < c.size <= 17 << 20, f"{what} has an impossible size")
        c.base = value.get("base")
        before = self.chunks[-1] if self.chunks else None
        if c.base is None:
            need(not before or before.base is None, f"{what} stands behind changed blocks")
        else:
            need(self.references, f"{what} is told from another backup, and there is none")
            need(isinstance(c.base, list) and all(
                isinstance(r, list) and len(r) == 2 and all(isinstance(x, int) for x in r) and r[0] >= 0 and r[1] > 0
                for r in c.base), f"{what} has a base that is none")
            need(not c.base or sum(r[1] for r in c.base) == c.length, f"{what} has a base of another length")
        if before and (before.base is None) == (c.base is None):
            need((before.pack, before.offset + before.size) <= (c.pack, c.offset), f"{what} does not lie behind the last")
        need(c.offset >= 16, f"{what} lies in the header of its pack")
        c.start = before.start + before.length if before else 0
        self.chunks.append(c)

    def _chunks_end(self):
        if self.own is None:
            self.own = sum(c.length for c in self.chunks if c.base is None)
            self.changed = sum(c.length for c in self.chunks) - self.own
            self.starts = [c.start for c in self.chunks]

    def _entry(self, value):
        what = f"{self.label}: an entry of the index"
        entry = Entry()
        if "encoded_path" in value:
            need(re.fullmatch("([0-9a-f]{2})*", field(value, "encoded_path", str, what)), f"{what} has no path")
            path = bytes.fromhex(value["encoded_path"])
        else:
            path = field(value, "path", str, what).encode("utf-8", "surrogatepass")
        entry.path = safe_path(path)
        if "tablespace_oid" in value:
            oid = field(value, "tablespace_oid", int, what)
            need(oid in self.tablespaces, f"{what} lies in a tablespace that the backup does not have")
            entry.path = b"pg_tblspc/%d/" % oid + path
        entry.mode, entry.size, entry.ranges = field(value, "mode", int, what) & 0o7777, None, None
        return entry

    def _file(self, value, entry):
        what = f"{self.label}: {os.fsdecode(entry.path)}"
        size = entry.size = field(value, "size_bytes", int, what)
        offset = value.get("offset")
        if value.get("in_pieces"):
            need(size and offset is None, f"{what} is in pieces, and is empty or shared")
            entry.ranges, self.open_file, self.open_left = [], entry, size
        elif offset is not None:
            need(0 < size <= 1 << 20 and self.first_at.get(offset) == size, f"{what} shares bytes of no other file")
            entry.ranges = [(0, offset, size)]
        else:
            at = self.position[0]
            entry.ranges = [(0, at, size)] if size else []
            self.first_at[at] = size
            self.position[0] += size
            need(self.position[0] <= self.own, f"{what} has more bytes than there are")
        self.file_bytes += size

    def _pieces(self, pieces):
        what = f"{self.label}: pieces of a file"
        need(self.open_file is not None, f"{what} without one")
        for piece in pieces:
            need(isinstance(piece, list) and 1 <= len(piece) <= 3 and all(
                isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in piece), f"{what} are none")
            length, stream = piece[0], piece[1] if len(piece) > 1 else 0
            need(0 < length <= self.open_left, f"{what} have not as many bytes as it")
            self.piece_count += 1
            need(self.piece_count <= 1 << 26, f"{what}: too many")
            if stream < 2:
                need(len(piece) < 3, f"{what} say where they begin in their own stream")
                at = self.position[stream] + (self.own if stream else 0)
                self.position[stream] += length
                need(self.position[stream] <= (self.changed if stream else self.own), f"{what} have more bytes than there are")
                which = 0
            else:
                need(stream - 2 < len(self.others), f"{what} are of a stream that is not there")
                which = stream - 1
                begin, since = self.piece_last.get(stream, (0, self.piece_total if stream in self.piece_last else None))
                at = piece[2] if len(piece) > 2 else (begin + self.piece_total - since if since is not None else 0)
                self.piece_last[stream] = at, self.piece_total
                other = self.others[stream - 2]
                need(at + length <= other.own + other.changed, f"{what} are bytes that {other.label} does not have")
            self.piece_total += length
            self.open_file.ranges.append((which, at, length))
            self.open_left -= length
        if not self.open_left:
            self.open_file = None

    # The stream of files.

    def chunk(self, number):
        found = self.cache.get(number)
        if found is not None:
            self.cache.move_to_end(number)
            return found
        c = self.chunks[number]
        key = self.packs[c.pack][0]
        what = f"{key}: the chunk at {c.offset}"
        with self.repository.open(key) as pack:
            header = pack.read(16)
            need(header == b"WZPK\x01\x01" + bytes(10), f"{key} is damaged: no header of a pack, or one of a later version")
            pack.seek(c.offset)
            data = pack.read(c.size)
        need(len(data) == c.size, f"{key} is cut off")
        need(blake3(data) == c.hash, f"{what} is damaged: its hash differs")
        base = None
        if c.base:
            base = b"".join(b"".join(self.others[0].read(at, length)) for at, length in c.base)
        try:
            original, _ = decode_file(data, base)
        except Damaged as error:
            raise Damaged(f"{what}: {error}") from None
        need(len(original) == c.length and blake3(original) == c.original_hash, f"{what} has other bytes than it should")
        self.cache[number] = original
        if len(self.cache) > self.CACHED:
            self.cache.popitem(last=False)
        return original

    def read(self, at, length):
        """The bytes of this backup's own stream, in pieces."""
        need(at + length <= self.own + self.changed, f"bytes that the stream of {self.label} does not have")
        number = bisect.bisect_right(self.starts, at) - 1
        while length:
            c = self.chunks[number]
            begin = at - c.start
            part = self.chunk(number)[begin : begin + length]
            yield part
            at, length, number = at + len(part), length - len(part), number + 1

    def content(self, entry):
        for which, at, length in entry.ranges:
            yield from (self if which == 0 else self.others[which - 1]).read(at, length)

    # Getting the files.

    def manifest(self):
        data = b"".join(self.stored_stream(field(self.json, "manifest", dict, self.what), 4 << 30))
        return data, Manifest(data, self.label)

    def get(self, out):
        data, manifest = self.manifest()
        if self.format == 1:
            self._get_archives(out, manifest)
        else:
            self.load()
            for entry in self.entries:
                if entry.size is None:
                    make_directory(out, entry.path)
                else:
                    manifest.write(out, entry.path, entry.size, entry.mode, self.content(entry))
            for entry in reversed(self.entries):
                if entry.size is None:
                    os.chmod(os.path.join(out, entry.path), entry.mode)
        manifest.finish()
        for oid in self.tablespaces:
            make_directory(out, b"pg_tblspc/%d" % oid)
        with open(os.path.join(out, b"backup_manifest"), "wb") as f:
            f.write(data)
        os.chmod(os.path.join(out, b"backup_manifest"), 0o600)

    def _get_archives(self, out, manifest):
        known = set(self.tablespaces) | set(self.new_tablespaces)
        for archive in field(self.json, "archives", list, self.what):
            oid = archive.get("tablespace_oid")
            prefix = b"" if oid is None else b"pg_tblspc/%d/" % oid
            need(oid is None or oid in self.tablespaces, f"{self.what}: an archive of no tablespace")
            pipe = Pipe(self.stored_stream(archive))
            try:
                with tarfile.open(fileobj=pipe, mode="r|") as tar:
                    for member in tar:
                        self._get_member(out, manifest, prefix, tar, member, known)
            except tarfile.TarError as error:
                raise Damaged(f"{self.label}: an archive is damaged: {error}") from None
            while pipe.read(1 << 20):
                pass

    def _get_member(self, out, manifest, prefix, tar, member, known):
        path = os.fsencode(member.name)
        while path.startswith(b"./"):
            path = path[2:]
        if path in (b"", b".") and member.isdir():
            return
        path = prefix + safe_path(path.rstrip(b"/"))
        if member.isdir():
            make_directory(out, path)
            os.chmod(os.path.join(out, path), member.mode & 0o7777 | 0o700)
        elif member.issym() or member.islnk():
            need(re.fullmatch(rb"pg_tblspc/[0-9]+", path) and int(path[10:]) in known,
                 f"{self.label}: an archive has a link that no tablespace has")
        else:
            need(member.isreg(), f"{self.label}: an archive has an entry that is no file and no directory")
            content = tar.extractfile(member)
            manifest.write(out, path, member.size, member.mode & 0o7777, iter(lambda: content.read(1 << 20), b""))


def field_sum(value):
    return sum(o["size_bytes"] for o in value["objects"])


class Pipe(io.RawIOBase):
    """Pieces of bytes as a file that can be read once."""

    def __init__(self, parts):
        self.parts, self.held = parts, b""

    def readable(self):
        return True

    def read(self, size=-1):
        while size < 0 or len(self.held) < size:
            part = next(self.parts, None)
            if part is None:
                break
            self.held += part
        size = len(self.held) if size < 0 else size
        out, self.held = self.held[:size], self.held[size:]
        return out


def make_directory(out, path):
    os.makedirs(os.path.join(out, path), mode=0o700, exist_ok=True)


class Manifest:
    """PostgreSQL's backup_manifest, against which files are written."""

    def __init__(self, data, label):
        self.label, self.files, self.written = label, {}, set()
        value = parse_json(data, f"the manifest of {label}")
        end = data.rfind(b'"Manifest-Checksum"')
        digest = hashlib.sha256(data[:end]).hexdigest()
        need(end > 0 and value.get("Manifest-Checksum") == digest, f"the manifest of {label} is damaged: its checksum differs")
        for f in field(value, "Files", list, f"the manifest of {label}"):
            if "Path" in f:
                path = f["Path"].encode("utf-8")
            else:
                path = bytes.fromhex(f["Encoded-Path"])
            self.files[path] = f

    def write(self, out, path, size, mode, parts):
        what = f"{self.label}: {os.fsdecode(path)}"
        listed = self.files.get(path)
        need(listed is not None, f"{what} is not in the manifest")
        need(path not in self.written, f"{what} is there twice")
        self.written.add(path)
        need(listed["Size"] == size, f"{what} has another size than the manifest says")
        algorithm = listed.get("Checksum-Algorithm", "NONE")
        known = {"CRC32C": None, "NONE": None}
        need(algorithm in known or algorithm in ("SHA224", "SHA256", "SHA384", "SHA512"), f"{what}: unknown checksum")
        digest = None if algorithm in known else hashlib.new(algorithm.lower())
        crc, total = 0, 0
        make_directory(out, os.path.dirname(path))
        full = os.path.join(out, path)
        descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as f:
            for part in parts:
                f.write(part)
                total += len(part)
                if digest:
                    digest.update(part)
                elif algorithm == "CRC32C":
                    crc = crc32c(part, crc)
        need(total == size, f"{what} has another size than the index says")
        os.chmod(full, mode)
        # The manifest has the bytes of a CRC from the lowest on.
        found = digest.hexdigest() if digest else crc.to_bytes(4, "little").hex()
        need(algorithm == "NONE" or found == listed.get("Checksum"), f"{what} is not what the manifest says")

    def finish(self):
        missing = sorted(set(self.files) - self.written)
        need(not missing, f"{self.label}: {len(missing)} files of the manifest are missing, "
             f"such as {os.fsdecode(missing[0]) if missing else ''}")


# ---------------------------------------------------------------- the command line


def write_whole(path, data):
    """Writes a file that has its name only when it is complete."""
    need(not os.path.lexists(path), f"{path} exists already")
    temporary = f"{path}.incomplete-{os.getpid()}"
    try:
        with open(temporary, "xb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.link(temporary, path)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def command_file(path, out, base):
    if out is None:
        need(path.endswith(".wz"), "say with -o where the output goes")
        out = path[:-3]
    with open(path, "rb") as f:
        data = f.read()
    if base is not None:
        with open(base, "rb") as f:
            base = f.read()
    try:
        original, name = decode_file(data, base)
    except Damaged as error:
        raise Damaged(f"{path}: {error}") from None
    write_whole(out, original)
    print(f"{out}: {len(original)} bytes" + (f", archived as {name}" if name else ""))


def command_list(repository):
    for cluster in repository.clusters:
        print(f"cluster {cluster}")
        for name in repository.wal_names(cluster):
            print(f"  wal {name}")
        for label in repository.labels():
            backup = Backup(repository, label)
            if backup.cluster == cluster:
                needs = f", needs {' '.join(backup.references)}" if backup.references else ""
                print(f"  backup {label} {backup.type}, format {backup.format}{needs}")


def command_backup(repository, label, out):
    need(not os.path.lexists(out), f"{out} exists already")
    backup = Backup(repository, label)
    temporary = f"{out.rstrip('/')}.incomplete-{os.getpid()}"
    os.mkdir(temporary, 0o700)
    done = False
    try:
        backup.get(os.fsencode(temporary))
        need(not os.path.lexists(out), f"{out} exists already")
        os.rename(temporary, out)
        done = True
    finally:
        if not done:
            shutil.rmtree(temporary, ignore_errors=True)
    wal = backup.json.get("required_wal") or []
    print(f"{out}: the backup {label} of cluster {backup.cluster}")
    for r in wal:
        print(f"to become consistent it needs the WAL from {r['first_segment']} to {r['last_segment']}")
    for t in backup.json["tablespaces"]:
        print(f"pg_tblspc/{t['oid']} was a link to {t['location']}: move it there, or elsewhere and change tablespace_map")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A second decoder of walzip's formats.")
    parser.add_argument("what", nargs="+", help="FILE.wz; with --repo: list, wal NAME or backup LABEL")
    parser.add_argument("--repo", metavar="DIR", help="the repository")
    parser.add_argument("--cluster", metavar="CLUSTER", help="the cluster of a WAL file, as `list` shows it")
    parser.add_argument("--base", metavar="FILE", help="what a file of differences is told from")
    parser.add_argument("-o", metavar="OUT", help="the file or the directory that is made")
    args = parser.parse_args(arguments)
    what = args.what
    sort = (what[0] if args.repo else "file", len(what))
    if sort not in (("file", 1), ("list", 1), ("wal", 2), ("backup", 2)) or (sort[1] == 2 and not args.o):
        parser.error("FILE.wz [-o OUT], or --repo DIR and list, wal NAME -o OUT or backup LABEL -o DIR")
    try:
        if sort[0] == "file":
            command_file(what[0], args.o, args.base)
        elif sort[0] == "list":
            command_list(Repository(args.repo))
        elif sort[0] == "wal":
            data = Repository(args.repo).wal(what[1], args.cluster)
            write_whole(args.o, data)
            print(f"{args.o}: {len(data)} bytes")
        else:
            command_backup(Repository(args.repo), what[1], args.o)
    except Damaged as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename or ''}: {error.strerror or error}"
    except Exception as error:  # What hostile input gets to, and no check has named.
        message = f"damaged input: {type(error).__name__}: {error}"
    else:
        return 0
    print("walzip_decode: " + " ".join(message.split()), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
