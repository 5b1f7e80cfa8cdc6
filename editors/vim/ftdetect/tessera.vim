" Files that hold Tessera programs.
autocmd BufNewFile,BufRead *.tsr setfiletype tessera
autocmd BufNewFile,BufRead * if getline(1) =~# '^#!.*\<tessera\>' | setfiletype tessera | endif
