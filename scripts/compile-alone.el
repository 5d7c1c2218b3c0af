;;; compile-alone.el --- Compile each file in an Emacs of its own  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Package managers compile each file in an Emacs of its own.  In one Emacs for all, a macro that one
;; file defines, too late for itself, would be there for the others.  As many are compiled at a time
;; as there are processors.

;;; Code:

(require 'seq)
(require 'subr-x)

(defvar native-comp-eln-load-path)

(defun agent-q-alone--processors ()
  "Return how many compilers may run at once."
  (max 1 (string-to-number
          (or (getenv "CARGO_BUILD_JOBS")
              (with-temp-buffer
                (ignore-errors (call-process "getconf" nil t nil "_NPROCESSORS_ONLN"))
                (buffer-string))))))

(defun agent-q-alone--start (source arguments)
  "Start an Emacs with ARGUMENTS that compiles SOURCE; return its process."
  (let ((process (make-process
                  :name "compile-alone" :buffer (generate-new-buffer " *compile-alone*")
                  :connection-type 'pipe :noquery t :sentinel #'ignore
                  :command `(,(expand-file-name invocation-name invocation-directory)
                             "-Q" "--batch" ,@arguments ,source))))
    (process-put process 'source source)
    process))

(defun agent-q-alone--run (sources arguments done)
  "Compile each of SOURCES in an Emacs that is started with ARGUMENTS.
Call DONE with the source, what its Emacs printed and whether it succeeded."
  (let ((waiting sources)
        (running nil)
        (most (agent-q-alone--processors)))
    (while (or waiting running)
      (while (and waiting (< (length running) most))
        (push (agent-q-alone--start (pop waiting) arguments) running))
      (accept-process-output nil 0.05)
      (dolist (process (seq-remove #'process-live-p running))
        (setq running (delq process running))
        ;; What it printed last can come after its end.
        (while (accept-process-output process 0))
        (let ((output (with-current-buffer (process-buffer process)
                        (string-trim (buffer-string)))))
          (kill-buffer (process-buffer process))
          (funcall done (process-get process 'source) output
                   (zerop (process-exit-status process))))))))

(defun agent-q-alone-byte (sources directories done)
  "Compile each of SOURCES to byte code, with DIRECTORIES on the load path too.
They are in a folder of their own, where no old .elc hides a fault.  DONE is
called as by `agent-q-alone--run'."
  (let ((folder (file-name-as-directory (make-temp-file "agent-q-alone" t))))
    (unwind-protect
        (progn
          (dolist (source sources)
            (copy-file source folder))
          (agent-q-alone--run
           (mapcar (lambda (source) (concat folder (file-name-nondirectory source))) sources)
           `("-L" ,folder
             ,@(mapcan (lambda (directory) (list "-L" directory)) (copy-sequence directories))
             "--eval" "(setq byte-compile-verbose nil load-prefer-newer t)" "-f" "batch-byte-compile")
           done))
      (delete-directory folder t))))

(defun agent-q-alone-native ()
  "Compile lisp/ to native code, into the folder that the command line names.
Exit with 1 when a compiler says anything, and with 2 where Emacs has none."
  (unless (and (fboundp 'native-comp-available-p) (native-comp-available-p))
    (kill-emacs 2))
  (let ((folder (file-name-as-directory (expand-file-name (pop command-line-args-left))))
        (findings 0))
    (agent-q-alone--run
     (directory-files (expand-file-name "lisp") t "\\`[^.#].*\\.el\\'")
     `("-L" ,(expand-file-name "lisp")
       "--eval" ,(format "(progn (push %S native-comp-eln-load-path) (setq load-prefer-newer t))"
                        folder)
       "-f" "batch-native-compile")
     (lambda (source output succeeded)
       (unless (and succeeded (string-empty-p output))
         (setq findings (1+ findings))
         (princ (format "%s, to native code: %s\n" (file-relative-name source)
                        (if (string-empty-p output) "failed" output))))))
    (kill-emacs (if (zerop findings) 0 1))))

(provide 'compile-alone)
;;; compile-alone.el ends here
