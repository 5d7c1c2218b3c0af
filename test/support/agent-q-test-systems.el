;;; agent-q-test-systems.el --- ASDF systems made for tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Systems with files in the directory of the tests, found by ASDF or only by
;; their project; and frameworks, which are used where ASDF finds them.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defun agent-q-test-systems-system (name files &rest options)
  "Make a system NAME of FILES, an alist of names and texts; return its directory.
OPTIONS are options of the definition."
  (let ((directory (make-temp-file (expand-file-name name agent-q-test-directory) t)))
    (with-temp-file (expand-file-name (concat name ".asd") directory)
      (insert (format "(defsystem %S :version \"1.2\" :serial t :components (%s) %s)"
                      name
                      (mapconcat (lambda (file) (format "(:file %S)" (car file))) files " ")
                      (string-join options " "))))
    (dolist (file files)
      (with-temp-file (expand-file-name (concat (car file) ".lisp") directory)
        (insert (cdr file))))
    (file-name-as-directory directory)))

(defun agent-q-test-systems-register (connection directory)
  "Have ASDF behind CONNECTION find the systems in DIRECTORY."
  (should (eq :returned
              (plist-get (agent-q-test-image-eval
                          connection
                          (format "(require :asdf) (pushnew #p%S (symbol-value (find-symbol \"*CENTRAL-REGISTRY*\" :asdf)) :test 'equal) (setf (uiop:getenv \"XDG_CACHE_HOME\") %S) (funcall (find-symbol \"INITIALIZE-OUTPUT-TRANSLATIONS\" :asdf))"
                                  directory (concat directory "cache/")))
                         :outcome))))

(defun agent-q-test-systems-load-p (connection framework)
  "Load FRAMEWORK, a system, over CONNECTION; nil when ASDF can't find it."
  (equal '("T") (agent-q-test-image-values
                 connection
                 (format "(progn (require :asdf) (and (asdf:find-system %S nil) (asdf:load-system %S) t))"
                         framework framework))))

(defun agent-q-test-systems-need (connection framework)
  "Skip the test unless FRAMEWORK can be loaded over CONNECTION."
  (unless (agent-q-test-systems-load-p connection framework)
    (ert-skip (format "ASDF finds no %s" framework))))

(defmacro agent-q-test-systems-in-project (directory connection &rest body)
  "Run BODY in a chat about the image of CONNECTION and the project in DIRECTORY."
  (declare (indent 2) (debug t))
  `(let* ((agent-q-project-root (file-truename ,directory))
          (default-directory agent-q-project-root))
     (agent-q-test-with-chat
       (agent-q-chat-set-connection ,connection)
       ,@body)))

(provide 'agent-q-test-systems)
;;; agent-q-test-systems.el ends here
