;;; agent-q-definition-trust-test.el --- Places that an image makes up  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Files and replies that nobody should trust: what an image says of its
;; definitions' places, through core and chat on real SLIME and SLY.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-connection)

(defvar slime-from-lisp-filename-function)
(defvar sly-from-lisp-filename-function)

(defun agent-q-definition-trust-test--names-file (connection symbol file)
  "Have the image behind CONNECTION say that SYMBOL, a name, is defined in FILE."
  (agent-q-test-image-directly
   connection
   (format "(let ((*error-output* (make-broadcast-stream)))
              (with-compilation-unit (:source-namestring %S)
                (compile (intern %S) '(lambda () 1))))"
           file (upcase symbol))))

(agent-q-test-tools-on-each definition-in-a-private-file-is-not-shown ()
  "Whatever the image says, a file is shown unasked as `read_file' or a library would be."
  (let* ((directory (file-name-as-directory
                     (file-truename (make-temp-file "agent-q-elsewhere" t))))
         (secret "(defun aq-led () 'top-secret-1)\n(top-secret-2)\n"))
    (unwind-protect
        (cl-flet ((answer (name &optional link)
                    (let ((file (concat directory name)))
                      (if link
                          (make-symbolic-link (concat directory link) file)
                        (write-region secret nil file nil 'silent))
                      (agent-q-definition-trust-test--names-file connection "aq-led" file)
                      (agent-q-test-tools-ask "/find_definition aq-led" chat))))
          (dolist (withheld (list (answer "server.key") (answer "server.key~")
                                  (answer "notes.txt") (answer "link.lisp" "server.key")))
            (should (string-search "not shown" withheld))
            (should (string-search "reading the file asks the user" withheld))
            (should-not (string-search "top-secret" withheld)))
          ;; The user's buffer is no way around that.
          (let ((buffer (find-file-noselect (concat directory "server.key"))))
            (unwind-protect
                (should-not (string-search "top-secret"
                                           (progn
                                             (delete-file (concat directory "server.key"))
                                             (answer "server.key"))))
              (kill-buffer buffer)))
          (should (string-search "top-secret-1" (answer "library.lisp"))))
      (delete-directory directory t))))

(defvar agent-q-definition-trust-test--asked nil
  "What a machine elsewhere was asked.")

(defun agent-q-definition-trust-test--elsewhere (operation &rest arguments)
  "Do OPERATION with ARGUMENTS on a machine elsewhere, which is this one."
  (let ((prefix "/aqfar:host:"))
    (cl-flet ((local (argument)
                (if (and (stringp argument) (string-prefix-p prefix argument))
                    (substring argument (length prefix))
                  argument)))
      (unless (memq operation '(file-remote-p expand-file-name))
        (push operation agent-q-definition-trust-test--asked))
      (let* ((inhibit-file-name-handlers
              (cons 'agent-q-definition-trust-test--elsewhere inhibit-file-name-handlers))
             (inhibit-file-name-operation operation)
             (value (if (eq operation 'file-remote-p)
                        (if (eq 'localname (nth 1 arguments)) (local (car arguments)) prefix)
                      (apply operation (mapcar #'local arguments)))))
        (if (memq operation '(expand-file-name file-truename abbreviate-file-name))
            (concat prefix value)
          value)))))

(agent-q-test-tools-on-each definition-no-host-of-the-images-choice ()
  "Emacs asks another machine for files only when the user's translation names it."
  (let* ((file (file-truename (make-temp-file "agent-q-" nil ".lisp" "(defun aq-led () 1)\n")))
         (key (file-truename (make-temp-file "agent-q-" nil ".key" "(top-secret-1)\n")))
         (file-name-handler-alist
          (cons '("\\`/aqfar:" . agent-q-definition-trust-test--elsewhere) file-name-handler-alist))
         (far (concat "/aqfar:host:" file))
         (translate (lambda (name) (concat "/aqfar:host:" name)))
         (agent-q-definition-trust-test--asked nil))
    (unwind-protect
        (progn
          (dolist (name (list far (concat "/tmp/.." far)))
            (agent-q-definition-trust-test--names-file connection "aq-led" name)
            (should-not (string-search "(defun aq-led"
                                       (agent-q-test-tools-ask "/find_definition aq-led" chat))))
          (should-not agent-q-definition-trust-test--asked)
          (let ((slime-from-lisp-filename-function translate)
                (sly-from-lisp-filename-function translate))
            (agent-q-definition-trust-test--names-file connection "aq-led" file)
            (should (string-search (concat far ":1")
                                   (agent-q-test-tools-ask "/find_definition aq-led" chat)))
            (should (string-search "(defun aq-led"
                                   (agent-q-test-tools-ask "/find_definition aq-led" chat)))
            (should (memq 'insert-file-contents agent-q-definition-trust-test--asked))
            (agent-q-definition-trust-test--names-file connection "aq-led" key)
            (should (string-search "not shown"
                                   (agent-q-test-tools-ask "/find_definition aq-led" chat)))))
      (delete-file file)
      (delete-file key))))

(defun agent-q-definition-trust-test--reply (connection reply)
  "Have the image behind CONNECTION answer REPLY to find_definition.
REPLY is a form of the image's; nil ends that."
  (agent-q-test-image-directly
   connection
   (format "(progn
              (defparameter cl-user::*aq-reply* %s)
              (unless (boundp 'cl-user::*aq-call*)
                (let* ((name (find-symbol \"CALL\" \"AGENT-Q-IMAGE\"))
                       (call (fdefinition name)))
                  (setf (symbol-value 'cl-user::*aq-call*) call
                        (fdefinition name)
                        (lambda (client id operation arguments)
                          (or (and (equal operation \"find-definition\")
                                   (symbol-value 'cl-user::*aq-reply*))
                              (funcall call client id operation arguments))))))
              nil)"
           reply)))

(agent-q-test-tools-on-each definition-hostile-replies-are-refused ()
  "A reply that holds itself, or is deeper than any, ends in a sentence."
  (agent-q-test-tools-ask "/find_definition list" chat)
  (dolist (reply '("\"(:outcome :returned :value (:definitions #1=((:what \\\"x\\\" :location (:file \\\"/x\\\")) . #1#)))\""
                   "(concatenate 'string \"(:outcome :returned :value (:location (\" (make-string 400000 :initial-element #\\())"
                   "\"(:outcome :returned :value (:location (:file #.(error))))\""
                   "\"(:outcome :returned :value [:location (:file 1)])\""))
    (agent-q-definition-trust-test--reply connection reply)
    (should (string-search "Cannot parse the reply"
                           (agent-q-test-tools-ask "/find_definition car" chat))))
  (let ((buffer (generate-new-buffer "aq-secret"))
        (base nil))
    (unwind-protect
        (progn
          (with-current-buffer buffer
            (insert "(defun top-secret-1 () 1)\n")
            (setq buffer-file-name (expand-file-name "x.key" temporary-file-directory)))
          (setq base (make-indirect-buffer buffer "aq-indirect"))
          (dolist (name '("aq-secret" "aq-indirect"))
            (agent-q-definition-trust-test--reply
             connection
             (format "\"(:outcome :returned :value (:definitions ((:what \\\"x\\\" :location (:buffer \\\"%s\\\" :position 3 :wanted t)))))\""
                     name))
            (let ((answer (agent-q-test-tools-ask "/find_definition car" chat)))
              (should (string-search "not shown" answer))
              (should-not (string-search "top-secret" answer)))))
      (agent-q-definition-trust-test--reply connection nil)
      (when base (kill-buffer base))
      (with-current-buffer buffer
        (setq buffer-file-name nil)
        (set-buffer-modified-p nil)
        (kill-buffer)))))

(ert-deftest agent-q-definition-a-reply-is-looked-at-in-one-go ()
  (cl-flet ((seconds (count)
              (let ((text (concat "(:outcome :returned :value ("
                                  (apply #'concat (make-list count "(:a \"x\\\"y\" 12 nil)"))
                                  "))")))
                (agent-q-test-seconds (lambda () (should (agent-q-connection-reply-p text)))))))
    ;; It would be sixteen times as long if it were quadratic.
    (should (agent-q-test-once (< (seconds 80000) (* 14 (seconds 20000))))))
  (dolist (text '("(" ")" "(\"" "(\"\\" "(\"\\n\")" "(?a)" "#1=(#1#)" "(a . b)" "('x)" "(;\n)"))
    (should-not (agent-q-connection-reply-p text)))
  (should (agent-q-connection-reply-p "(:a \"#1=\" -1 nil t ())")))

(ert-deftest agent-q-definition-places-of-a-reply-are-kept-in-order ()
  (let* ((text "(:outcome :returned :value ((:doc \":location (:a \\\"1\\\")\" :location (:file \"x\\\")(\" :location (:no 1)) :line 3) (:location nil) (:what :location)) :location (:at 4))")
         (data (agent-q-connection-reply-read text))
         (seen nil)
         (places (agent-q-connection-reply-place
                  data (lambda (location)
                         (push location seen)
                         (list :where (format "%d" (length seen)) :lost t)))))
    (should (equal seen '((:at 4) (:file "x\")(" :location (:no 1)))))
    (should (equal places '((:where "1" :lost t) (:where "2" :lost t))))
    (should (equal data '(:outcome :returned
                          :value ((:doc ":location (:a \"1\")" :where "1" :lost t :line 3)
                                  (:location nil) (:what :location))
                          :where "2" :lost t))))
  (should-error (agent-q-connection-reply-read "(:location (#1=(#1#)))")))

(provide 'agent-q-definition-trust-test)
;;; agent-q-definition-trust-test.el ends here
