# Writes a C++ source with the texts of files:
#   cmake -DOUTPUT=F -DROOT=DIR -DFILES=a,b,c -P embed.cmake     (paths from ROOT)
string(REPLACE "," ";" FILES "${FILES}")
set(text "// Made by lessons/book/embed.cmake.\n#include \"lessons/book/lesson.h\"\n\n"
         "namespace ringscope::lessons {\n\n"
         "std::span<const EmbeddedFile> embedded_files() {\n"
         "  static constexpr EmbeddedFile files[] = {\n")
string(JOIN "" text ${text})
file(WRITE ${OUTPUT} "${text}")
foreach(path ${FILES})
  file(READ ${ROOT}/${path} content)
  file(APPEND ${OUTPUT} "{\"${path}\", R\"EMBEDDED(${content})EMBEDDED\"},\n")
endforeach()
file(APPEND ${OUTPUT} "  };\n  return files;\n}\n\n}  // namespace ringscope::lessons\n")
