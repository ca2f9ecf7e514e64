"""Prints a table of sizes."""
import os
import sys


# Largest first.
def sizes(folder):
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            found.append((os.path.getsize(path), name))
    found.sort(reverse=True)
    return found


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    for size, name in sizes(folder):
        print(f"{size:10} {name}")


if __name__ == "__main__":
    main()
