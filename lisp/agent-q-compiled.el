;;; agent-q-compiled.el --- The Common Lisp half, compiled for second Lisps  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A second Lisp does little else than its work, so compiling what arrives there as text would take
;; most of its time.  So SBCL loads compiled files: one folder for each version of SBCL and of all
;; modules, in that cache of agent-q's where second Lisps compile.  The first second Lisp still gets
;; the text; when it ends, one that does nothing else compiles the modules.  Other implementations
;; don't compile what arrives, or take minutes for it.

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-image-module)

(defvar agent-q-compiled--tried nil
  "The folders that this Emacs has had made, or tried to.
Where they can't be loaded, making them again would give the same.")

(defun agent-q-compiled-use (connection cache)
  "Let the image behind CONNECTION load modules that are compiled in CACHE."
  (let ((implementation (agent-q-connection-ask connection :implementation)))
    (when (and (string-prefix-p "SBCL " implementation)
               (member "sb-thread" (agent-q-connection-features connection)))
      (process-put (agent-q-connection-process connection) 'agent-q-image-compiled
                   ;; Not where the image's watch lets ASDF write.
                   (expand-file-name
                    (format "agent-q/%s/%s"
                            (replace-regexp-in-string "[^[:alnum:].+-]" "-" implementation)
                            (agent-q-image-module-version-of-all))
                    cache)))))

(defun agent-q-compiled--folder (connection)
  "Return the folder for the image behind CONNECTION, or nil if it loads no compiled files."
  (process-get (agent-q-connection-process connection) 'agent-q-image-compiled))

(defun agent-q-compiled-wanted-p (connection)
  "Whether the image behind CONNECTION was sent text, for lack of compiled files."
  (let ((folder (agent-q-compiled--folder connection)))
    (and folder
         (process-get (agent-q-connection-process connection) 'agent-q-image-sent)
         (not (member folder agent-q-compiled--tried)))))

(defun agent-q-compiled-make (connection function)
  "Have the image behind CONNECTION compile all modules.
Call FUNCTION when it isn't needed any more."
  (let* ((folder (agent-q-compiled--folder connection))
         (versions (file-name-directory folder))
         (new (progn (make-directory versions t)
                     (make-temp-file (expand-file-name "new-" versions) t))))
    (push folder agent-q-compiled--tried)
    (agent-q-connection-ask
     connection :rex (agent-q-image-module-compiling-form new) t
     (lambda (result)
       (unwind-protect
           (if (cadr result)
               (agent-q-compiled--put new folder)
             (delete-directory new t))
         (funcall function))))))

(defun agent-q-compiled--put (new folder)
  "Make NEW, in which all is compiled, FOLDER; delete the other versions beside it."
  (dolist (other (directory-files (file-name-directory folder) t
                                  directory-files-no-dot-files-regexp))
    (unless (equal other new)
      (delete-directory other t)))
  (mapc #'delete-file (directory-files new t "\\.lisp\\'"))
  (rename-file new folder))

(provide 'agent-q-compiled)
;;; agent-q-compiled.el ends here
