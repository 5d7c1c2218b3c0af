;;; agent-q-drift-test.el --- What the image and the project's files don't have alike  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A project of one system on real SLIME and SLY: definitions are made, edited, renamed and
;; removed in the image or in the files, and the rows say so, or that nobody knows.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-systems)
(require 'agent-q-test-tools)
(require 'agent-q-drift)

(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)

(defconst agent-q-drift-test--source "(defpackage :aq-drift (:use :cl))
(in-package :aq-drift)
(defmacro define-rate (name value)
  `(progn (defvar ,(intern (format nil \"*~A-RATE*\" name)) ,value)
          (defun ,(intern (format nil \"~A-RATE\" name)) () ,value)))
(define-rate loan 3)
(defclass account () ((owner :initarg :owner :accessor owner)))
(defstruct point x y)
(define-condition refused (error) ((reason :initarg :reason :reader reason)))
(defvar *limit* 100)
(defconstant +most+ 7)
(deftype amount () 'integer)
(defgeneric total (it))
(defmethod total ((it account)) 1)
(defmethod print-object ((it account) stream) (princ \"account\" stream))
(defun fee (x) ; of it
  (* x 2))
(defun (setf fee) (value x) (list value x))
(define-compiler-macro fee (&whole form x) (declare (ignore x)) form)
#-sbcl
(defun host () :other)
#+sbcl
(defun host () :sbcl)
(let ((count 0))
  (defun counted () (incf count)))
"
  "The text of the file.")

(defmacro agent-q-drift-test--with-project (loaded &rest body)
  "Run BODY in a chat about a project with a system, in DIRECTORY.
FILE is its file.  The tools have loaded it if LOADED is non-nil."
  (declare (indent 1) (debug t))
  `(let* ((directory (file-truename
                      (agent-q-test-systems-system
                       "aq-drift" (list (cons "drift" agent-q-drift-test--source)))))
          (file (expand-file-name "drift.lisp" directory))
          (agent-q-offered-tools 'all))
     (agent-q-test-systems-register connection directory)
     (agent-q-test-image-values
      connection "(progn (asdf:clear-system \"aq-drift\")
                         (dolist (name '(:aq-drift :aq-drift-2)) (when (find-package name) (delete-package name)))
                         (setf agent-q-image::*journal* '()))")
     (agent-q-test-systems-in-project directory connection
       (when ,loaded
         (should (string-match-p "\\`Loaded" (agent-q-test-tools-ask "/load_system aq-drift"))))
       (unwind-protect (progn ,@body)
         (when (find-buffer-visiting file)
           (with-current-buffer (find-buffer-visiting file)
             (set-buffer-modified-p nil)
             (kill-buffer)))))))

(defun agent-q-drift-test--rows (connection)
  "Return the rows of CONNECTION's drift: lists of state, name and detail."
  (let ((told (agent-q-test-tools-unasked (agent-q-test-tools-ask "/image_drift"))))
    (should (string-match-p "compared" told))
    (mapcar (lambda (row)
              (list (plist-get row :state) (plist-get row :name) (plist-get row :detail)))
            (plist-get (agent-q-test-image-value connection "drift-rows") :rows))))

(defun agent-q-drift-test--replace (file from to)
  "Replace FROM in FILE by TO."
  (with-temp-buffer
    (insert-file-contents file)
    (goto-char (point-min))
    (search-forward from)
    (replace-match to t t)
    (write-region nil nil file nil 'silent)))

(agent-q-test-tools-on-each drift-is-none-after-a-load ()
  "What the files define, and what macros of theirs do, is no drift."
  (agent-q-drift-test--with-project t
    (should-not (agent-q-drift-test--rows connection))
    (should (string-match-p "\\`The image has what the files have (1 file compared)"
                            (agent-q-test-tools-ask "/image_drift")))))

(agent-q-test-tools-on-each drift-tells-what-only-the-image-has ()
  "Definitions made without a file are told, whichever way, and go when they are undone."
  (agent-q-drift-test--with-project t
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defun bonus () 1)")
    (agent-q-test-tools-ask "/eval_form package=aq-drift (defun tried () 1)")
    (agent-q-test-tools-ask "/eval_form package=aq-drift (defvar *tried* 1)")
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defclass branch () ((city :accessor city)))")
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defstruct coin side)")
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defmethod total ((it integer)) it)")
    (agent-q-test-tools-ask "/compile_form package=aq-drift (define-rate bond 4)")
    (agent-q-test-tools-ask "/compile_form package=cl-user (defun aq-drift-free () 1)")
    ;; The user's own, at the REPL.
    (agent-q-test-image-directly connection "(defun typed () 1)" "AQ-DRIFT")
    (agent-q-test-image-directly connection "(defun cl-user::aq-drift-scratch () 1)")
    (should (equal '((:image "AQ-DRIFT-FREE" "made by the agent")
                     (:image "AQ-DRIFT::*BOND-RATE*" "made by the agent")
                     (:image "AQ-DRIFT::*TRIED*" "made by the agent")
                     (:image "AQ-DRIFT::BOND-RATE" "made by the agent")
                     (:image "AQ-DRIFT::BONUS" "made by the agent")
                     (:image "AQ-DRIFT::BRANCH" "made by the agent")
                     (:image "AQ-DRIFT::COIN" "made by the agent")
                     (:image "AQ-DRIFT::TOTAL (INTEGER)" "made by the agent")
                     (:image "AQ-DRIFT::TRIED" "made by the agent")
                     (:image "AQ-DRIFT::TYPED" "made without a file"))
                   (agent-q-drift-test--rows connection)))
    (agent-q-test-tools-ask "/undo_definition aq-drift::bonus")
    (should-not (assoc "AQ-DRIFT::BONUS" (mapcar #'cdr (agent-q-drift-test--rows connection))))
    (agent-q-test-image-values connection "(progn (fmakunbound 'cl-user::aq-drift-free) (fmakunbound 'cl-user::aq-drift-scratch))")))

(agent-q-test-tools-on-each drift-tells-what-differs ()
  "What was edited in the file, in a buffer or in the image differs; comments and blanks don't."
  (agent-q-drift-test--with-project t
    (agent-q-drift-test--replace file "(defun fee (x) ; of it\n  (* x 2))" "(defun fee (X)   (* x 2))")
    (should-not (agent-q-drift-test--rows connection))
    (agent-q-drift-test--replace file "(* x 2)" "(* x 3)")
    (agent-q-drift-test--replace file "(defvar *limit* 100)" "(defvar *limit* 200)")
    (agent-q-drift-test--replace file "(owner :initarg :owner :accessor owner)" "(owner :accessor owner)")
    (agent-q-drift-test--replace file "(define-rate loan 3)" "(define-rate loan 5)")
    (agent-q-drift-test--replace file "#+sbcl\n(defun host () :sbcl)" "#+sbcl\n(defun host () :it)")
    (let ((changed "the file has changed since it was loaded"))
      (should (equal `((:differs "AQ-DRIFT::*LIMIT*" ,changed)
                       (:differs "AQ-DRIFT::*LOAN-RATE*" ,changed)
                       (:differs "AQ-DRIFT::ACCOUNT" ,changed)
                       (:differs "AQ-DRIFT::FEE" ,changed)
                       (:differs "AQ-DRIFT::HOST" ,changed)
                       (:differs "AQ-DRIFT::LOAN-RATE" ,changed))
                     (agent-q-drift-test--rows connection))))
    (should (string-match-p "\\`Loaded" (agent-q-test-tools-ask "/load_system aq-drift")))
    (should-not (agent-q-drift-test--rows connection))
    ;; The same text again is none; another one is.
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defun fee (x) (* x 3))")
    (should-not (agent-q-drift-test--rows connection))
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defun fee (x) (* x 4))")
    (agent-q-test-tools-ask "/eval_form package=aq-drift (defun counted () 0)")
    (should (equal '((:differs "AQ-DRIFT::COUNTED" "made by the agent")
                     (:differs "AQ-DRIFT::FEE" "made by the agent"))
                   (agent-q-drift-test--rows connection)))
    (agent-q-test-tools-ask (format "/compile_file path=%s name=\"defun fee\"" file))
    (agent-q-test-tools-ask "/undo_definition aq-drift::counted")
    (should-not (agent-q-drift-test--rows connection))
    ;; What has no date of its own.
    (dolist (form '("(defclass account () (owner extra))" "(deftype amount () 'real)"
                    "(defparameter *limit* 1)" "(define-compiler-macro fee (x) `(+ ,x 1))"))
      (agent-q-test-tools-ask (concat "/compile_form package=aq-drift " form)))
    (should (equal '((:differs "AQ-DRIFT::*LIMIT*" "made by the agent")
                     (:differs "AQ-DRIFT::ACCOUNT" "made by the agent")
                     (:differs "AQ-DRIFT::AMOUNT" "made by the agent")
                     (:differs "AQ-DRIFT::FEE" "made by the agent"))
                   (agent-q-drift-test--rows connection)))
    (should (string-match-p "\\`Loaded" (agent-q-test-tools-ask "/load_system aq-drift force=true")))
    (should-not (agent-q-drift-test--rows connection))
    ;; The user's own keys.
    (let* ((slime-dispatching-connection (agent-q-connection-process connection))
           (sly-dispatching-connection slime-dispatching-connection))
      (with-current-buffer (find-file-noselect file)
        (agent-q-test-tools-client-call client "compile-string" "(defun fee (x) (* x 9))" 600))
      (agent-q-test-until (equal '("9") (agent-q-test-image-values connection "(aq-drift::fee 1)"))))
    (should (equal '((:differs "AQ-DRIFT::FEE" "the file has changed since it was loaded"))
                   (agent-q-drift-test--rows connection)))
    ;; An unsaved buffer.
    (with-current-buffer (find-file-noselect file)
      (goto-char (point-max))
      (insert "(defun late () 1)\n")
      (goto-char (point-min))
      (search-forward "(* x 3)")
      (replace-match "(* x 5)"))
    (should (equal '((:differs "AQ-DRIFT::FEE" "the file has changed since it was loaded")
                     (:file "AQ-DRIFT::LATE" nil))
                   (mapcar (lambda (row) (cons (car row) (cons (upcase (nth 1 row)) (nthcdr 2 row))))
                           (agent-q-drift-test--rows connection))))
    (should (string-match-p "FEE, function, drift.lisp:[0-9]+, not saved"
                            (agent-q-test-tools-answer)))))

(agent-q-test-tools-on-each drift-tells-what-left-the-files ()
  "What was renamed or removed in the file is only in the image; what is new there, only in the file."
  (agent-q-drift-test--with-project t
    (agent-q-drift-test--replace file "(defun fee (x)" "(defun charge (x)")
    (agent-q-drift-test--replace file "(define-rate loan 3)\n" "")
    (agent-q-drift-test--replace file "(defstruct point x y)\n" "")
    (agent-q-drift-test--replace file "((it account)) 1)" "((it symbol)) 1)")
    (agent-q-drift-test--replace file "(deftype amount () 'integer)" "(deftype sum () 'integer)")
    (should (equal '((:image "AQ-DRIFT::*LOAN-RATE*" "the form that made it is no longer in drift.lisp")
                     (:image "AQ-DRIFT::AMOUNT" "no longer in drift.lisp")
                     (:image "AQ-DRIFT::FEE" "no longer in drift.lisp")
                     (:image "AQ-DRIFT::LOAN-RATE" "the form that made it is no longer in drift.lisp")
                     (:image "AQ-DRIFT::POINT" "no longer in drift.lisp")
                     (:image "AQ-DRIFT::TOTAL (AQ-DRIFT::ACCOUNT)" "no longer in drift.lisp")
                     (:file "AQ-DRIFT::CHARGE" nil)
                     (:file "AQ-DRIFT::SUM" nil)
                     (:file "AQ-DRIFT::TOTAL (SYMBOL)" nil))
                   (cl-sort (agent-q-drift-test--rows connection) #'<
                            :key (lambda (row) (if (eq (car row) :file) 1 0)))))
    ;; Forgetting them, and bringing one back.
    (let ((id (plist-get (cl-find "AQ-DRIFT::FEE"
                                  (plist-get (agent-q-test-image-value connection "drift-rows") :rows)
                                  :key (lambda (row) (plist-get row :name)) :test #'equal)
                         :id)))
      (agent-q-test-image-value connection "drift-forget" :id id
                                :chat (agent-q-image-chat-name chat))
      (should-not (assoc "AQ-DRIFT::FEE" (mapcar #'cdr (agent-q-drift-test--rows connection))))
      (agent-q-test-tools-ask "/undo_definition aq-drift::fee")
      (should (assoc "AQ-DRIFT::FEE" (mapcar #'cdr (agent-q-drift-test--rows connection)))))))

(agent-q-test-tools-on-each drift-says-what-it-does-not-know ()
  "What others loaded is unknown, and a system that isn't loaded is one row."
  (agent-q-drift-test--with-project nil
    (should (equal '((:not-loaded "drift.lisp" "15 definitions"))
                   (agent-q-drift-test--rows connection)))
    (agent-q-test-image-load connection file)
    (should (equal '((:unknown "drift.lisp" "loaded by others, or before agent-q came"))
                   (agent-q-drift-test--rows connection)))
    ;; What has been seen since isn't sure to be what was loaded, but it differs.
    (agent-q-drift-test--replace file "(defun fee (x)" "(defun charge (x)")
    (set-file-times file (time-add nil 100))
    (should (equal '((:image "AQ-DRIFT::FEE" "no longer in drift.lisp")
                     (:file "AQ-DRIFT::CHARGE" nil)
                     (:unknown "drift.lisp" "loaded by others, or before agent-q came"))
                   (agent-q-drift-test--rows connection)))
    (let ((other (expand-file-name "b.lisp" directory)))
      (with-temp-file other
        (insert "(defpackage :aq-drift-2 (:use :cl))\n(in-package :aq-drift-2)\n\
(defun fee () 1)\n(defun z () 1)\n"))
      (should (member '(:not-loaded "b.lisp" "2 definitions") (agent-q-drift-test--rows connection)))
      (set-file-times other (time-add nil -100))
      (agent-q-test-image-load connection other)
      (agent-q-drift-test--replace other "(defun z () 1)" "(defun y () 2)")
      (let ((rows (agent-q-drift-test--rows connection)))
        (should (member '(:file "AQ-DRIFT-2::Y" nil) rows))
        (should (member '(:unknown "AQ-DRIFT-2::Z" "its file has changed since it was loaded, and no form names it now")
                        rows))
        (should (member '(:unknown "b.lisp" "loaded by others; it has changed since") rows))))
    ;; Another package's function of that name is another one.
    (agent-q-test-image-values connection "(fmakunbound 'aq-drift-2::fee)")
    (should (member '(:file "AQ-DRIFT-2::FEE" nil) (agent-q-drift-test--rows connection)))))

;;;; In a chat, and as a list

(agent-q-test-tools-on-each drift-is-told-under-its-turn ()
  "A turn that left something only in the image says so, until it is undone."
  (agent-q-test-with-model
      (agent-q-json-encode
       '(:turns [(:steps [(:tool_calls [(:name "compile_form"
                                         :arguments (:package "aq-drift" :form "(defun bonus () 1)"))])])
                 (:steps [(:text "Done.")])
                 (:steps [(:text "Nothing.")])
                 (:steps [(:tool_calls [(:name "edit_file"
                                         :arguments (:path "drift.lisp" :new_str ""
                                                     :old_str "(defun (setf fee) (value x) (list value x))\n"))])])
                 (:steps [(:text "Removed.")])]))
    (agent-q-drift-test--with-project t
      (agent-q-test-send "try it")
      (agent-q-test-until (agent-q-test-shows "Only in the image: AQ-DRIFT::BONUS. [Drift]"))
      (should (string-search "1 only in image" (agent-q-chat-view-header-line)))
      (let ((turn agent-q-session-turn))
        ;; A turn without calls is told nothing.
        (agent-q-test-ask "and now")
        (should (= 1 (how-many "Only in the image" (point-min) (point-max))))
        (agent-q-test-image-value connection "journal-restore" :turn turn))
      (agent-q-test-until (agent-q-test-shows "Nothing is left only in the image."))
      (should-not (string-search "only in image" (agent-q-chat-view-header-line)))
      ;; What an edit removed is still there.
      (agent-q-test-send "remove it")
      (while (progn (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                    (agent-q-call-waiting))
        (agent-q-test-answer "y"))
      (agent-q-test-until (agent-q-test-shows "Only in the image: (SETF AQ-DRIFT::FEE). [Drift]"))
      (agent-q-test-until (string-search "1 only in image" (agent-q-chat-view-header-line))))))

(defmacro agent-q-drift-test--in-list (&rest body)
  "Run BODY in the list, opened from the current chat, with its rows."
  (declare (debug t))
  `(save-window-excursion
     (agent-q-drift)
     (agent-q-drift-test--await)
     (unwind-protect (progn ,@body)
       (kill-buffer "*agent-q drift*"))))

(defun agent-q-drift-test--await ()
  "Wait until this list is shown."
  (agent-q-test-until (string-match-p "in [0-9]+ files?" agent-q-drift--said)))

(defun agent-q-drift-test--go (name)
  "Go to the row of NAME in this list."
  (goto-char (point-min))
  (search-forward name)
  (beginning-of-line))

(agent-q-test-tools-on-each drift-has-names-and-places-alive ()
  "M-. goes to the definition of the row, or to the place under point, and d describes it."
  (agent-q-drift-test--with-project t
    (agent-q-drift-test--replace file "(defun host () :sbcl)" "(defun host () :it)")
    (agent-q-drift-test--in-list
     (dolist (where '("HOST" "differs" "drift.lisp:"))
       (set-buffer "*agent-q drift*")
       (agent-q-drift-test--go "HOST")
       (search-forward where (line-end-position) t)
       (goto-char (match-beginning 0))
       (save-window-excursion
         (switch-to-buffer (current-buffer))
         (call-interactively (key-binding (kbd "M-.")))
         (with-current-buffer (agent-q-test-until (find-buffer-visiting file))
           (should (agent-q-test-until (looking-at-p "(defun host\\|.*\n?.*(defun host"))))
         (kill-buffer (find-buffer-visiting file))))
     (set-buffer "*agent-q drift*")
     (agent-q-drift-test--go "HOST")
     (let ((asked nil))
       (cl-letf (((symbol-function 'agent-q-connection-ask)
                  (lambda (&rest arguments) (setq asked (cdr arguments)))))
         (call-interactively (key-binding (kbd "C-c C-d d"))))
       (should (equal asked '(:describe "AQ-DRIFT::HOST" "COMMON-LISP-USER")))))))

(agent-q-test-tools-on-each drift-can-be-evened-out ()
  "The keys of the list put the image's text into the file, load the file's, compare, and forget."
  (agent-q-drift-test--with-project t
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defun fee (x) (* x 4))")
    (agent-q-test-tools-ask "/compile_form package=aq-drift (defun bonus () 1)")
    (agent-q-drift-test--replace file "(defun host () :sbcl)" "(defun host () :it)")
    (agent-q-drift-test--in-list
     (should (string-match-p "BONUS +function +only in image" (buffer-string)))
     (agent-q-drift-test--go "FEE ")
     (call-interactively (key-binding "="))
     (agent-q-test-until (get-buffer "*agent-q drift diff*"))
     (with-current-buffer "*agent-q drift diff*"
       (should (string-match-p "^-  (\\* x 2))\n\\+(defun fee (x) (\\* x 4))" (buffer-string))))
     (kill-buffer "*agent-q drift diff*")
     (set-buffer "*agent-q drift*")
     ;; A conditional's definition is compiled as the file has it.
     (agent-q-drift-test--go "HOST")
     (setq agent-q-drift--said "")
     (call-interactively (key-binding "l"))
     (agent-q-drift-test--await)
     (should-not (string-match-p "HOST" (buffer-string)))
     (should (equal '(":IT") (agent-q-test-image-values connection "(aq-drift::host)")))
     (agent-q-drift-test--go "FEE ")
     (call-interactively (key-binding "p"))
     (agent-q-test-until (and (find-buffer-visiting file)
                              (with-current-buffer (find-buffer-visiting file)
                                (string-search "\n(defun fee (x) (* x 4))\n(defun (setf" (buffer-string)))))
     (set-buffer "*agent-q drift*")
     (agent-q-drift-test--go "BONUS")
     (cl-letf (((symbol-function 'read-file-name) (lambda (&rest _) file)))
       (call-interactively (key-binding "p"))
       (agent-q-test-until (with-current-buffer (find-buffer-visiting file)
                             (string-search "(incf count)))\n\n(defun bonus () 1)\n" (buffer-string)))))
     (set-buffer "*agent-q drift*")
     (setq agent-q-drift--said "")
     (revert-buffer)
     (agent-q-drift-test--await)
     (should-not agent-q-drift--rows)
     (with-current-buffer (find-buffer-visiting file)
       (revert-buffer t t t))
     (setq agent-q-drift--said "")
     (revert-buffer)
     (agent-q-drift-test--await)
     (agent-q-drift-test--go "BONUS")
     (setq agent-q-drift--said "")
     (cl-letf (((symbol-function 'y-or-n-p) #'always))
       (call-interactively (key-binding "f")))
     (agent-q-drift-test--await)
     (should-not (string-match-p "BONUS" (buffer-string)))
     (should (equal '("NIL") (agent-q-test-image-values connection "(fboundp 'aq-drift::bonus)"))))))

(provide 'agent-q-drift-test)
;;; agent-q-drift-test.el ends here
