# Makes the pack of `./ringscope gpu-check`, and runs it. The launcher reads this file for its functions and lends it its
# own: say, die, die_with_log, have, have_gpu_driver, nvcc_of, progress, clear_progress, install_missing, root, logs.

pack_most_mib=54  # 64, which some lent machines take, with the sources and the results
pack_programs=(ringscope ringscope_gpu cuda_tests gpu_device gpu_forward gpu_backward gpu_carried_state gpu_ring_balance)
pack_nccl_programs=(nccl_tests nccl_ring)  # where nccl.h is; NCCL itself is looked for on the machine that runs the pack

gpu_check_help() {
  cat <<END
./ringscope gpu-check [--out FILE-OR-FOLDER] [--logs DIR] [--seconds N]
    checks and measures this machine's GPU; writes bench/results/<gpu>-<date>.json unless --out says otherwise
./ringscope gpu-check --pack DIR
    puts all that it takes into DIR, for a machine without toolkit, network or packages: DIR/gpu-check there
END
}

pack_commit() {
  local commit
  commit=$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null) || commit=unknown
  [[ $commit == unknown || -z $(git -C "$root" status --porcelain --untracked-files=no 2>/dev/null) ]] ||
    commit+=+changes
  echo "$commit"
}

# Builds for any machine of this architecture, with libraries looked for beside the programs first. MPI is left out,
# because it needs more of its machine than libraries.
build_pack() {  # build_pack TREE LOG
  local flags=()
  [[ $(uname -m) != x86_64 ]] || flags+=(-DCMAKE_CXX_FLAGS=-march=x86-64-v3)
  # Machine code a tenth the size, where nvcc knows how (12.8 and later).
  [[ $(nvcc_of --help) != *--compress-mode* ]] || flags+=(-DCMAKE_CUDA_FLAGS=--compress-mode=size)
  progress "building the pack"
  {
    (cd -- "$root" && cmake --preset release -B "$1" -DRINGSCOPE_NATIVE=OFF -DRINGSCOPE_VIZ=OFF -DRINGSCOPE_MPI=OFF \
      -DRINGSCOPE_CUDA=ON -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags,-z,origin \
      -DCMAKE_INSTALL_RPATH="\$ORIGIN/../lib" "${flags[@]}") &&
      { ! grep -q 'build bench/nccl_ring:' "$1/build.ninja" || pack_programs+=("${pack_nccl_programs[@]}"); } &&
      cmake --build "$1" --target "${pack_programs[@]}"
  } >"$2" 2>&1 </dev/null
}

# The libraries of a program that are not the system's own (libc, libstdc++, which asks for a libc as new as its own, and
# what comes with them) or the driver's.
libraries_of() {  # libraries_of PROGRAM...
  ldd -- "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s|libcuda)\.so'
}

# Puts the programs into one archive, a fifth of their size because all hold the same kernels.
compress_pack() {  # compress_pack DIR
  progress "compressing the pack"
  python3 -c 'import sys, tarfile
with tarfile.open(sys.argv[1] + "/programs.tar.xz", "w:xz", preset=9) as archive:
    for name in ("lib", "bin"):
        archive.add(sys.argv[1] + "/" + name, name)' "$1" && rm -rf -- "$1/bin" "$1/lib"
}

make_pack() {  # make_pack DIR [compressed]
  local dir=$1 tree=$logs/gpu-check log=$logs/gpu-check.log new program library mib
  nvcc_of --version >/dev/null || die 2 "missing: the CUDA toolkit (nvcc on PATH, or under CUDA_HOME or /usr/local/cuda)"
  if [[ -e $dir && ! -e $dir/gpu-check && -n $(ls -A -- "$dir" 2>/dev/null) ]]; then
    die 2 "--pack $dir: is there and is no pack; a new or empty folder is accepted"
  fi
  mkdir -p -- "$logs" "$(dirname -- "$dir")" 2>/dev/null || die 3 "can't make the folder of $dir"
  build_pack "$tree" "$log" || { install_missing && build_pack "$tree" "$log"; } ||
    die_with_log "building the pack failed" "$log"
  new=$dir.new.$$
  trap "rm -rf -- ${new@Q}" EXIT
  mkdir -p -- "$new/bin" "$new/lib" 2>/dev/null || die 3 "can't make $new"
  for program in "${pack_programs[@]/ringscope_gpu/ringscope-gpu}"; do
    find "$tree/" -name "$program" -type f -perm -u+x -exec cp -- {} "$new/bin/" \;
    [[ -e $new/bin/$program ]] || die 3 "the build made no $program"
    strip -- "$new/bin/$program" 2>/dev/null
  done
  libraries_of "$new"/bin/* | while IFS= read -r library; do cp -L -- "$library" "$new/lib/"; done
  ! libraries_of "$new"/bin/* | grep -qv "^$new/" || die 3 "the pack's programs look for their libraries elsewhere"
  cp -- "$root"/bench/gpu_check/{gpu_check,reports,sdpa}.py "$new/bin/"
  cp -- "$root/bench/gpu_check/gpu-check.sh" "$new/gpu-check"
  pack_commit >"$new/commit"
  [[ -z ${2:-} ]] || compress_pack "$new" || die 3 "can't compress the pack"
  mib=$(du -sm -- "$new" | cut -f1)
  [[ -z ${2:-} ]] || ((mib <= pack_most_mib)) || die 3 "the pack has $mib MiB; at most $pack_most_mib are wanted"
  { rm -rf -- "$dir" && mv -- "$new" "$dir"; } || die 3 "can't write $dir"
  clear_progress
  say "$dir: $mib MiB, commit $(<"$dir/commit")"
}

gpu_check() {  # gpu_check ARGS...
  local pack='' out=$root/bench/results arguments=()
  while (($# > 0)); do
    case $1 in
      -h | --help) gpu_check_help; exit 0 ;;
      --pack | --out | --logs | --seconds)
        (($# > 1)) || die 2 "gpu-check $1: needs a value"
        case $1 in
          --pack) pack=$2 ;;
          --out) out=$2 ;;
          *) arguments+=("$1" "$2") ;;
        esac
        shift 2
        ;;
      *) die 2 "gpu-check $1: --pack DIR, --out FILE-OR-FOLDER, --logs DIR and --seconds N are accepted" ;;
    esac
  done
  if [[ -n $pack ]]; then
    have python3 || die 2 "gpu-check --pack: missing: python3, 3.7 or later"
    make_pack "$(realpath -m -- "$pack")" compressed
    return
  fi
  have_gpu_driver || die 3 "gpu-check: no NVIDIA driver is there; a GPU of compute capability 8.0 or later is needed; \
'gpu-check --pack DIR' makes a pack for another machine"
  have python3 || die 2 "gpu-check: missing: python3, 3.7 or later"
  make_pack "$logs/gpu-check-pack"
  [[ $out != "$root/bench/results" ]] || mkdir -p -- "$out"
  exec "$logs/gpu-check-pack/gpu-check" --out "$out" "${arguments[@]}"
}
