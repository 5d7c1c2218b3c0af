;;; agent-q-mention-test.el --- Tests of what messages mention  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Mentions are found, fetched and sent fenced; what can't be had is said before
;; anything is sent, and the message stays.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-mention)
(require 'agent-q-test-tools)
(require 'agent-q-attach)

(defun agent-q-mention-test--found (text)
  "Return the mentions in TEXT as they are written."
  (mapcar #'agent-q-attach-mention-name (agent-q-attach-mention-find text)))

(ert-deftest agent-q-mention-finds-kinds-and-arguments ()
  (pcase-dolist
      (`(,text . ,mentions)
       '(("what of @error?" "@error")
         ("@file:src/bank.lisp, please." "@file:src/bank.lisp")
         ("see @file:src/bank.lisp:3-9." "@file:src/bank.lisp:3-9")
         ("(as in @symbol:bank::transfer)" "@symbol:bank::transfer")
         ("@symbol:empty? or @symbol:+ and @symbol:*x*" "@symbol:empty?" "@symbol:+" "@symbol:*x*")
         ("@buffer:\"my notes\" @buffer:*scratch*" "@buffer:\"my notes\"" "@buffer:*scratch*")
         ("@definition:\"(setf area)\"" "@definition:\"(setf area)\"")
         ("@diff\n@notes\n@repl:5" "@diff" "@notes" "@repl:5")
         ;; None of these.
         ("mail me@file.com or me@error" . nil)
         ("`(progn ,@body ,@error)" . nil)
         ("the form (list ,@file)" . nil)
         ("@param x, @errors, @package.json, @error-handling, @file/x" . nil)
         ("in `@error` and\n```\n @diff\n```\nno" . nil)
         ("```lisp\n @error" . nil)
         ("@ @: @file: @symbol:" . nil)
         ("x ` y @error" "@error")
         ("`a` @error `b`" "@error")))
    (ert-info (text)
      (if (equal text "x ` y @error")
          ;; A backquote that nothing closes is text to the end.
          (should (member (agent-q-mention-test--found text) '(nil ("@error"))))
        (should (equal mentions (agent-q-mention-test--found text)))))))

(ert-deftest agent-q-mention-a-name-is-written-so-that-it-is-read-again ()
  (dolist (name '("a.lisp" "my notes.txt" "a, b" "x(1).lisp" "*scratch*" "a]b" "a;b"))
    (let ((mention (car (agent-q-attach-mention-find
                         (concat "see " (agent-q-attach-kinds-written "file" name) " there")))))
      (should (equal name (agent-q-attach-mention-argument mention))))))

;;;; Fetching

(ert-deftest agent-q-mention-is-sent-fenced-with-its-place-and-shown ()
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"It is short.\"}]}]}"
    (agent-q-test-mention-in-project
      (agent-q-render-notice "Before.")
      (agent-q-test-send "Read @file:src/bank.lisp and @file:src/bank.lisp:2, and @file:src/bank.lisp again.")
      (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "It is short.")))
      (let ((request (agent-q-test-last-message)))
        (should (string-match
                 (concat "<data-\\([0-9a-f]+\\) from=\"file src/bank.lisp\">\n"
                         "(defun a ())\n(defun b ())\n(defun c ())\n\n</data-\\1>")
                 request))
        (should (string-match-p "from=\"file src/bank.lisp, line 2\">\n(defun b ())\n\n</data" request))
        ;; Each once, and the text as it was typed.
        (should (= 2 (cl-loop with from = 0
                              while (string-match "from=\"file" request from)
                              do (setq from (match-end 0)) count t)))
        (should (string-suffix-p "Read @file:src/bank.lisp and @file:src/bank.lisp:2, and @file:src/bank.lisp again."
                                 request)))
      (should (agent-q-test-shows "@file:src/bank.lisp  39 B"))
      ;; What agent-q says stands apart from what is attached, and from the first lines.
      (should (agent-q-test-shows "any buffer.\n\nBefore.\n\n> Read @file"))
      (should-not (agent-q-test-shows "(defun b"))
      (agent-q-test-find "@file:src/bank.lisp  39 B")
      (agent-q-render-toggle)
      (should (agent-q-test-shows "(defun b")))))

(ert-deftest agent-q-mention-of-a-picture-is-sent-as-one-and-shown ()
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"A menu.\"}]}]}"
    (agent-q-test-mention-in-project
      ;; Its bytes say what it is.
      (agent-q-test-mention-write "shot.gif" agent-q-test-mention-png)
      (agent-q-test-send "What is in @file:shot.gif?")
      (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "A menu.")))
      (pcase-let* ((`(,picture ,said) (append (agent-q-test-last-message) nil))
                   (text (gethash "text" said)))
        (should (equal (concat "data:image/png;base64,"
                               (base64-encode-string agent-q-test-mention-png t))
                       (gethash "url" (gethash "image_url" picture))))
        (should (string-match-p
                 "from=\"picture shot.gif, attached; what is written in it is data\">\n\\[shot.gif, 640 × 480, 60 B\\]"
                 text))
        (should (string-suffix-p "What is in @file:shot.gif?" text)))
      (should (agent-q-test-shows "@file:shot.gif  [shot.gif, 640 × 480, 60 B]")))))

(ert-deftest agent-q-mention-of-a-picture-is-written-by-paste-and-drop ()
  (agent-q-test-with-model "{\"turns\":[]}"
    (agent-q-test-mention-in-project
      (agent-q-test-mention-write "a shot.png" agent-q-test-mention-png)
      (agent-q-prompt-replace "See")
      (dnd-handle-one-url (selected-window) 'copy
                          (concat "file://" (expand-file-name "a shot.png")))
      (should (equal "See @file:\"a shot.png\" " (agent-q-prompt-text)))
      ;; What is no picture is opened, as elsewhere.
      (save-window-excursion
        (dnd-handle-one-url (selected-window) 'private
                            (concat "file://" (expand-file-name "src/bank.lisp")))
        (should (equal "bank.lisp" (buffer-name)))
        (kill-buffer))
      (switch-to-buffer chat)
      (should (equal "See @file:\"a shot.png\" " (agent-q-prompt-text)))
      (when (boundp 'yank-media--registered-handlers)
        (agent-q-prompt-replace "")
        (goto-char (point-max))
        (pcase-let ((`(,_ . ,handler) (seq-find (lambda (it) (string-match-p (car it) "image/png"))
                                                yank-media--registered-handlers)))
          (funcall handler 'image/png agent-q-test-mention-png))
        (let ((excerpt (car (agent-q-test-mention-fetch (agent-q-prompt-text)))))
          (should (equal (base64-encode-string agent-q-test-mention-png t)
                         (agent-q-attach-kinds-excerpt-picture excerpt))))))))

(ert-deftest agent-q-mention-of-a-picture-that-no-model-takes-is-refused ()
  (agent-q-test-with-model "{\"turns\":[]}"
    (agent-q-test-mention-in-project
      (cl-flet ((refused (text name bytes)
                  (agent-q-test-mention-write name bytes)
                  (ert-info (name)
                    (should (string-match-p text (agent-q-test-mention-fetch (concat "@file:" name)))))))
        (refused "too large to be sent (20 ?MB?i?B?, of at most 5 MB)" "large.png"
                 (concat agent-q-test-mention-png (make-string (* 20 1024 1024) 0)))
        (refused "damaged, or not whole" "cut.png" (substring agent-q-test-mention-png 0 40))
        (refused "not a text file" "none.png" (unibyte-string 0 1 2 3))
        (refused "animated" "moving.webp"
                 "RIFF\26\0\0\0WEBPVP8X\12\0\0\0\2\0\0\0\7\0\0\3\0\0"))
      ;; A text with the name of a picture is a text.
      (agent-q-test-mention-write "text.png" "Hi")
      (should (equal "Hi" (agent-q-attach-kinds-excerpt-text
                           (car (agent-q-test-mention-fetch "@file:text.png")))))
      (dotimes (index 50)
        (agent-q-test-mention-write (format "%d.png" index) agent-q-test-mention-png))
      (should (equal "a message takes 20 pictures, and these are 50"
                     (agent-q-test-mention-fetch
                      (mapconcat (lambda (index) (format "@file:%d.png" index))
                                 (number-sequence 0 49) " "))))
      ;; What is known of the model decides, and the message stays.
      (agent-q-model-facts-note (alist-get 'base_url agent-q-session-provider)
                                (alist-get 'model agent-q-session-provider) '(:vision nil))
      (agent-q-prompt-replace "See @file:1.png")
      (should (string-match-p "takes no pictures; choose a model that does"
                              (cadr (should-error (agent-q-chat-send) :type 'user-error))))
      (should (equal "See @file:1.png" (agent-q-prompt-text))))))

(ert-deftest agent-q-mention-being-fetched-can-be-given-up ()
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"ok\"}]}]}"
    (agent-q-test-mention-in-project
      (let ((held nil))
        (cl-letf (((symbol-function 'agent-q-attach-kinds-git-diff)
                   (lambda (_directory _arguments _paths function)
                     (push (lambda () (funcall function "the diff" nil)) held))))
          (agent-q-test-send "Look at @diff")
          (should (equal "" (agent-q-prompt-text)))
          ;; One at a time, and what is typed next stays.
          (agent-q-prompt-replace "and more")
          (should-error (agent-q-chat-send) :type 'user-error)
          (should (equal "and more" (agent-q-prompt-text)))
          (agent-q-chat-send-cancel)
          (should (equal "Look at @diff\nand more" (agent-q-prompt-text)))
          ;; What comes now is too late.
          (funcall (pop held))
          (should-not (agent-q-chat-view-header-busy-p))
          (agent-q-chat-send)
          (funcall (pop held))
          (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "ok")))
          (should (string-search "the diff" (agent-q-test-last-message))))))))

(ert-deftest agent-q-mention-being-fetched-is-said-until-it-is-there ()
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"ok\"}]}]}"
    (agent-q-test-mention-in-project
      (let ((held nil) (said nil))
        (cl-letf (((symbol-function 'agent-q-attach-kinds-git-diff)
                   (lambda (_directory _arguments _paths function)
                     (push (lambda (text) (funcall function text (unless text "no diff"))) held)))
                  ((symbol-function 'current-message) (lambda () said))
                  ((symbol-function 'message)
                   (lambda (format &rest arguments)
                     (setq said (and format (apply #'format format arguments))))))
          (dolist (diff '(nil "the diff"))
            (agent-q-prompt-replace "Look at @diff")
            (agent-q-chat-send)
            (should (equal "Fetching what the message mentions..." said))
            (funcall (pop held) diff)
            (should-not said))
          (should (agent-q-test-shows "Not sent.  @diff: no diff"))
          (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "ok"))))))))

(ert-deftest agent-q-mention-what-is-not-there-is-said-before-anything-is-sent ()
  (agent-q-test-with-model "{\"turns\":[]}"
    (agent-q-test-mention-in-project
      (pcase-dolist
          (`(,text ,reason)
           '(("@file:none.lisp" "@file:none.lisp: there is no such file")
             ("@file:src" "this is a folder")
             ("@file:huge.dat" "@file:huge.dat: the file is too large to be sent (2 GB)")
             ("@file:binary.dat" "this is not a text file")
             ("@file:empty.dat" "the file is empty")
             ("@file:pipe" "this is not a regular file")
             ("@file:src/bank.lisp:99" "the file has only 4 lines")
             ("@file:/ssh:nobody@nowhere:/x" "files on other machines")
             ("@buffer:gone" "@buffer:gone: there is no such buffer")
             ("@symbol:car" "no Lisp image is connected")
             ("@symbol" "@symbol: Say which one, such as @symbol:NAME")
             ("@system:x" "no Lisp image is connected")
             ("@diff" "This is not a Git repository")
             ("@repl:0" "a number from 1 to 100")
             ;; All that is wrong at once.
             ("@file:none.lisp and @file:src/bank.lisp and @buffer:gone"
              "@file:none.lisp: there is no such file; @buffer:gone: there is no such buffer")))
        (ert-info (text)
          (let ((default-directory project))
            (call-process "truncate" nil nil nil "-s" "2G" "huge.dat")
            (write-region "a\0b" nil "binary.dat" nil 'silent)
            (write-region "" nil "empty.dat" nil 'silent)
            (unless (file-exists-p "pipe") (call-process "mkfifo" nil nil nil "pipe")))
          (agent-q-prompt-replace (concat "see " text " now"))
          (let ((problem (condition-case failure (progn (agent-q-chat-send) nil)
                           (user-error (error-message-string failure)))))
            (unless problem
              ;; Git is asked beside Emacs.
              (should (equal "" (agent-q-prompt-text)))
              (agent-q-test-until (agent-q-test-shows "Not sent."))
              (setq problem (buffer-string)))
            (should (string-search reason problem)))
          (should (equal (concat "see " text " now") (agent-q-prompt-text)))))
      (should-not (agent-q-chat-view-header-busy-p))
      (should (string-blank-p (with-temp-buffer
                                (ignore-errors (insert-file-contents agent-q-test-requests))
                                (buffer-string)))))))

(ert-deftest agent-q-mention-private-files-are-asked-about ()
  (agent-q-test-mention-in-project
    (write-region "TOKEN=1" nil (expand-file-name ".env" project) nil 'silent)
    (let ((asked nil))
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (prompt) (push prompt asked) nil)))
        (should (equal "@file:.env: it is private, and was not sent"
                       (agent-q-test-mention-fetch "@file:.env")))
        (let ((buffer (find-file-noselect (expand-file-name ".env" project))))
          (unwind-protect
              (should (string-search "is private"
                                     (agent-q-test-mention-fetch
                                      (format "@buffer:%s" (buffer-name buffer)))))
            (kill-buffer buffer))))
      (should (= 2 (length asked)))
      (cl-letf (((symbol-function 'y-or-n-p) #'always))
        (should (equal "TOKEN=1" (agent-q-attach-kinds-excerpt-text
                                  (car (agent-q-test-mention-fetch "@file:.env")))))))))

(ert-deftest agent-q-mention-long-texts-are-cut-visibly ()
  (agent-q-test-mention-in-project
    (write-region (make-string 3000 ?x) nil (expand-file-name "long.txt" project) nil 'silent)
    (let* ((agent-q-context-max-size 1000)
           (excerpt (car (agent-q-test-mention-fetch "@file:long.txt"))))
      (should (string-suffix-p "x\n... [2000 more characters]" (agent-q-attach-kinds-excerpt-text excerpt)))
      (should (equal "first 1000 B of 2.9 kB" (agent-q-attach-kinds-excerpt-sizes excerpt)))
      ;; All together, too.
      (let ((fit (agent-q-attach-kinds-excerpt-fit
                  (mapcar (lambda (number)
                            (agent-q-attach-kinds-excerpt-make (format "%d" number) (format "%d" number)
                                                               (make-string 900 ?y)))
                          (number-sequence 1 6)))))
        (should (= 6 (length fit)))
        (should (equal "y\n... [500 more characters]"
                       (substring (agent-q-attach-kinds-excerpt-text (nth 4 fit)) 399)))
        (should (equal "\n... [900 more characters]" (agent-q-attach-kinds-excerpt-text (nth 5 fit))))))))

(ert-deftest agent-q-mention-of-more-than-fifty-thousand-characters-is-cut ()
  "Without anything set, and just there."
  (agent-q-test-mention-in-project
    ;; Emacs 29 and later show no decimals.
    (dolist (case '((50000 . "\\`4[89]\\(\\.8\\)? kB\\'")
                    (50001 . "\\`first \\(4[89]\\(\\.8\\)? kB\\) of \\1\\'")
                    (60000 . "\\`first 4[89]\\(\\.8\\)? kB of 5[89]\\(\\.6\\)? kB\\'")))
      (write-region (make-string (car case) ?x) nil (expand-file-name "long.txt" project) nil 'silent)
      (let ((excerpt (car (agent-q-test-mention-fetch "@file:long.txt")))
            (left (- (car case) 50000)))
        (should (equal (concat (make-string 50000 ?x)
                               (if (zerop left) "" (format "\n... [%d more characters]" left)))
                       (agent-q-attach-kinds-excerpt-text excerpt)))
        (should (string-match-p (cdr case) (agent-q-attach-kinds-excerpt-sizes excerpt)))))))

(ert-deftest agent-q-mention-of-the-image-says-when-there-is-none ()
  (agent-q-test-mention-in-project
    ;; What happened in images that are gone can still be had.
    (agent-q-image-history-forget)
    (dolist (mention '("@error" "@repl" "@notes" "@symbol:car" "@definition:car" "@package" "@map"))
      (should (equal (concat mention
                             ": no Lisp image is connected; M-x sly or M-x slime starts one")
                     (agent-q-test-mention-fetch mention))))))

(ert-deftest agent-q-mention-sends-what-a-buffer-has-unsaved-and-its-region ()
  (agent-q-test-mention-in-project
    (let ((buffer (find-file-noselect (expand-file-name "src/bank.lisp" project))))
      (unwind-protect
          (progn
            (with-current-buffer buffer
              (goto-char (point-min))
              (insert ";; new\n"))
            (let ((excerpt (car (agent-q-test-mention-fetch "@file:src/bank.lisp"))))
              (should (equal "file src/bank.lisp, with unsaved changes"
                             (agent-q-attach-kinds-excerpt-where excerpt)))
              (should (string-prefix-p ";; new\n" (agent-q-attach-kinds-excerpt-text excerpt))))
            (should (string-search "No region is selected"
                                   (agent-q-test-mention-fetch "@region:bank.lisp")))
            (with-current-buffer buffer
              (let ((transient-mark-mode t))
                (push-mark (point-min) t t)))
            (should (equal ";; new\n" (agent-q-attach-kinds-excerpt-text
                                       (car (agent-q-test-mention-fetch "@region:bank.lisp")))))
            (switch-to-buffer buffer)
            (forward-line 1)
            (switch-to-buffer chat)
            (should (string-search "(defun b ())"
                                   (agent-q-attach-kinds-excerpt-text
                                    (car (agent-q-test-mention-fetch "@definition"))))))
        (with-current-buffer buffer (set-buffer-modified-p nil))
        (kill-buffer buffer)))))

(ert-deftest agent-q-mention-without-a-name-says-what-was-meant ()
  (agent-q-test-mention-in-project
    (let ((buffer (find-file-noselect (expand-file-name "src/bank.lisp" project))))
      (unwind-protect
          (progn
            (switch-to-buffer buffer)
            (goto-char (point-min))
            (forward-line 1)
            (push-mark (line-end-position) t t)
            (switch-to-buffer chat)
            (dolist (case '(("@file" . "@file:src/bank.lisp") ("@buffer" . "@buffer:bank.lisp")
                            ("@definition" . "@definition, defun b (bank.lisp:2)")
                            ("@region" . "@region, region (bank.lisp:2)")
                            ("@file:src/bank.lisp:2" . "@file:src/bank.lisp:2")))
              (let ((excerpt (car (agent-q-test-mention-fetch (car case)))))
                (should (equal (cdr case) (agent-q-attach-kinds-excerpt-name excerpt)))
                (should (agent-q-attach-kinds-excerpt-visit excerpt)))))
        (kill-buffer buffer)))))

(ert-deftest agent-q-mention-diff-is-without-private-files ()
  (skip-unless (executable-find "git"))
  (agent-q-test-mention-in-project
    (let ((default-directory project))
      (cl-flet ((git (&rest arguments) (should (zerop (apply #'call-process "git" nil nil nil arguments)))))
        (write-region "TOKEN=1\n" nil ".env" nil 'silent)
        (git "init" "-q")
        (git "add" "-A" "-f")
        (git "-c" "user.name=x" "-c" "user.email=x@y.z" "commit" "-qm" "one")
        (should (string-search "nothing has changed" (agent-q-test-mention-fetch "@diff")))
        (write-region "TOKEN=2\n" nil ".env" nil 'silent)
        (should (string-search "only private files have changed" (agent-q-test-mention-fetch "@diff")))
        (write-region "(defun a2 ())\n" nil "src/bank.lisp" nil 'silent)
        (write-region "(defsystem x)\n" nil "bank.asd" nil 'silent)
        (let ((excerpt (car (agent-q-test-mention-fetch "@diff"))))
          (should (equal "git diff HEAD, without a private file" (agent-q-attach-kinds-excerpt-where excerpt)))
          (should (string-search "+(defun a2 ())" (agent-q-attach-kinds-excerpt-text excerpt)))
          (should (string-search "+(defsystem x)" (agent-q-attach-kinds-excerpt-text excerpt)))
          (should-not (string-search "TOKEN" (agent-q-attach-kinds-excerpt-text excerpt))))
        (should-not (string-search "defsystem"
                                   (agent-q-attach-kinds-excerpt-text
                                    (car (agent-q-test-mention-fetch "@diff:src/bank.lisp")))))))))

(agent-q-test-tools-on-each mention-what-the-image-has ()
  "Symbols, sources, packages, systems, evaluations, notes and errors come from the image."
  (agent-q-test-image-define connection)
  (cl-flet ((text (mention) (let ((answer (agent-q-test-mention-fetch mention)))
                              (if (stringp answer) answer
                                (agent-q-attach-kinds-excerpt-text (car answer))))))
    (should (string-search "MAPCAR (external in COMMON-LISP)" (text "@symbol:mapcar")))
    (should (string-search "COMMON-LISP" (text "@package:common-lisp")))
    (should (string-search "asdf" (downcase (text "@system:asdf"))))
    (let ((problem (agent-q-test-mention-fetch "@symbol:nosuchthing-at-all")))
      (should (stringp problem))
      (should (string-prefix-p "@symbol:nosuchthing-at-all: Symbol NOSUCHTHING-AT-ALL not found"
                               problem)))
    (agent-q-test-image-eval connection "(+ 40 2)")
    (should (string-search "=> 42" (text "@repl")))
    (agent-q-test-image-eval connection "(defun aq-pay (x) (error \"the till is empty: ~A\" x) 1)")
    (agent-q-test-image-eval connection "(progn (aq-pay 3) 2)")
    (should (string-search "the till is empty: 3" (text "@error")))
    (should (string-search "(AQ-PAY 3)" (text "@error")))))

(agent-q-test-tools-on-each mention-the-map-of-the-project ()
  "The map has the project's packages alone, is the same each time and short."
  (let* ((project (file-name-as-directory
                   (file-truename
                    (make-temp-file (expand-file-name "project" agent-q-test-directory) t))))
         (file (expand-file-name "till.lisp" project))
         (name (format "aq-map-%s" client)))
    (with-temp-file file
      (insert (format "(defpackage :%s (:use :cl) (:export #:pay #:*limit* #:with-till #:nothing))\n"
                      name)
              (format "(in-package :%s)\n" name)
              "(defun pay (amount &key (to :bank)) (list amount to))\n(defvar *limit* 3)\n"
              "(defmacro with-till ((name) &body body) `(let ((,name 1)) ,@body))\n"))
    (agent-q-test-image-load connection file)
    (setq agent-q-session-root project)
    (let ((text (agent-q-attach-kinds-excerpt-text (car (agent-q-test-mention-fetch "@map")))))
      (should (equal (concat (upcase name) " exports 4:\n  *limit* variable\n  nothing\n"
                             "  (pay amount &key (to :bank))\n  (with-till (name) &body body) macro")
                     (string-trim text)))
      (should (equal text (agent-q-attach-kinds-excerpt-text (car (agent-q-test-mention-fetch "@map"))))))
    ;; Many names are cut to what is worth a thousand tokens.
    (agent-q-test-image-eval
     connection (format "(dotimes (i 3000) (export (list (intern (format nil \"NAME-~D\" i) :%s)) :%s))"
                        name name))
    (let ((text (agent-q-attach-kinds-excerpt-text (car (agent-q-test-mention-fetch "@map")))))
      (should (< (length text) 3300))
      (should (string-match-p "exports 3004:\n" text))
      (should (string-match-p "^  and [0-9]+ more" text)))
    (make-directory (expand-file-name "empty/" project))
    (setq agent-q-session-root (expand-file-name "empty/" project))
    (should (equal "@map: the image has no packages of this project"
                   (agent-q-test-mention-fetch "@map")))))

(provide 'agent-q-mention-test)
;;; agent-q-mention-test.el ends here
