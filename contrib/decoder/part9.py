def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("-o")
    args = parser.parse_args()
    with open(args.file, "rb") as f:
        data, name = decode_file(f.read())
    print(len(data), name)

if __name__ == "__main__":
    main()
